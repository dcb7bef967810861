// finds shared-global 36

const seen = new Set();

export default Keep.workflow({
  name: "cache of seen mails",
  topics: ["mail", "done"],
  producers: {
    poll: {
      schedule: { interval: "5m" },
      handler: async (ctx, state) => {
        const mails = await ctx.gmail.search({ query: "label:todo", after: state?.cursor });
        for (const mail of mails) {
          await ctx.publish("mail", { messageId: mail.id, title: `Mail: ${mail.subject}`, payload: { id: mail.id, subject: mail.subject } });
        }
        return { cursor: mails.lastCursor };
      },
    },
  },
  consumers: {
    work: Keep.consumer({
      subscribe: ["mail"],
      async prepare(ctx) {
        const [event] = await ctx.peek("mail", { limit: 1 });
        if (!event || seen.has(event.messageId)) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "mail", ids: [event.messageId] }],
          data: event.payload,
          ui: { title: `Handle ${event.payload.subject}` },
        };
      },
      async mutate(ctx, { data }) {
        await ctx.gmail.archive({ id: data.id });
      },
      async next(ctx, prepared) {
        seen.add(prepared.data.id);
      },
    }),
  },
});
// finds empty-look 36
