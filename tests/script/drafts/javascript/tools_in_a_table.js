// finds hidden-use 19

export default Keep.workflow({
  name: "notify-anywhere",
  topics: ["notice"],
  consumers: {
    notify: Keep.consumer({
      subscribe: ["notice"],
      async prepare(ctx) {
        const [notice] = await ctx.peek("notice", { limit: 1 });
        if (!notice) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "notice", ids: [notice.messageId] }],
          data: notice.payload,
          ui: { title: `Notify about ${notice.title}` },
        };
      },
      async mutate(ctx, { data }) {
        const ways = { slack: ctx.slack.postMessage };
        await ways[data.service]({ channel: data.channel, text: data.text });
      },
    }),
  },
});
