// finds undeclared-topic 15
// finds unsubscribed-topic 24

const TOPICS = { received: "email.recieved", done: "row.created" };

export default Keep.workflow({
  name: "email-rows",
  topics: { "email.received": {}, "row.created": {} },
  producers: {
    poll: {
      schedule: { interval: "5m" },
      handler: async (ctx) => {
        const emails = await ctx.gmail.search({ query: "newer_than:1d" });
        for (const e of emails) {
          await ctx.publish(TOPICS.received, { messageId: e.id, title: `Email ${e.subject}`, payload: e });
        }
      },
    },
  },
  consumers: {
    rows: Keep.consumer({
      subscribe: ["email.received"],
      async prepare(ctx) {
        const [mail] = await ctx.peek("row.created", { limit: 1 });
        if (!mail) return { reservations: [], data: {} };
        return { reservations: [{ topic: "email.received", ids: [mail.id] }], data: {} };
      },
    }),
  },
});
