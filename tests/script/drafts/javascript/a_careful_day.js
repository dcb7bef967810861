export default Keep.workflow({
  name: "a careful day",
  topics: ["mail", "day"],
  producers: {
    poll: {
      schedule: { cron: "0 9 * * *", onDeploy: false },
      handler: async (ctx, state) => {
        const mails = await ctx.gmail.search({ query: "label:todo", after: state?.cursor });
        const day = new Date().toISOString().slice(0, 10);
        for (const mail of mails) {
          await ctx.publish("mail", { messageId: mail.id, title: `Mail: ${mail.subject}`, payload: { id: mail.id, subject: mail.subject } });
        }
        await ctx.publish("day", { messageId: `day:${day}`, title: `The mails of ${day}` });
        return { cursor: mails.lastCursor };
      },
    },
  },
  consumers: {
    work: Keep.consumer({
      subscribe: ["mail"],
      async prepare(ctx) {
        const [event] = await ctx.peek("mail", { limit: 1 });
        if (!event) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "mail", ids: [event.messageId] }],
          data: event.payload,
          ui: { title: `Handle ${event.payload.subject}` },
        };
      },
      async mutate(ctx, { data }) {
        await ctx.gmail.archive({ id: data.id });
      },
      async next(ctx, prepared, result) {
        if (result.status === "applied") return { last: prepared.data.subject };
      },
    }),
  },
});
