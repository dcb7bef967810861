// finds shared-global 16

let cursor = null;

export default Keep.workflow({
  name: "slack-mirror",
  topics: ["message"],
  producers: {
    pull: {
      schedule: { interval: "1m" },
      handler: async (ctx) => {
        const messages = await ctx.slack.listMessages({ channel: "#general" });
        for (const m of messages) {
          await ctx.publish("message", { messageId: m.ts, title: `${m.user}: ${m.text}`, payload: m });
        }
        cursor = messages.lastCursor;
      },
    },
  },
  consumers: {
    mirror: Keep.consumer({
      subscribe: ["message"],
      async prepare(ctx) {
        const [m] = await ctx.peek("message", { limit: 1 });
        if (!m) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "message", ids: [m.messageId] }],
          data: { text: m.payload.text, cursor },
          ui: { title: `Mirror ${m.title}` },
        };
      },
      async mutate(ctx, { data }) {
        await ctx.notion.createPage({ databaseId: "mirror", properties: { Text: data.text } });
      },
    }),
  },
});
