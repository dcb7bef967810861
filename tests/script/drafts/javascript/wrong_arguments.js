// finds wrong-argument 14
// finds wrong-argument 15
// finds wrong-argument 25
// finds wrong-argument 25
// finds wrong-argument 25

export default Keep.workflow({
  name: "post-standup",
  topics: ["standup"],
  consumers: {
    post: Keep.consumer({
      subscribe: ["standup"],
      async prepare(ctx) {
        const history = await ctx.slack.listMessages("#standup");
        const [standup] = await ctx.peek("standup", { max: 1 });
        if (!standup || history.length) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "standup", ids: [standup.id] }],
          data: standup.payload,
          ui: { title: `Post standup of ${standup.payload.day}` },
        };
      },
      async mutate(ctx, { data }) {
        const slack = ctx.slack;
        await slack.postMessage({ channel: 42, message: data.text });
      },
    }),
  },
});
