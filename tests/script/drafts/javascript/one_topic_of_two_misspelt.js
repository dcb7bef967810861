// finds undeclared-topic 19

export default Keep.workflow({
  name: "router",
  topics: ["inbox", "inbox.sales", "inbox.support"],
  consumers: {
    route: Keep.consumer({
      subscribe: ["inbox"],
      async prepare(ctx) {
        const [mail] = await ctx.peek("inbox", { limit: 1 });
        if (!mail) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "inbox", ids: [mail.messageId] }],
          data: { id: mail.messageId, subject: mail.payload.subject },
        };
      },
      async next(ctx, { data }) {
        if (!data.id) return;
        await ctx.publish(data.subject.includes("invoice") ? "inbox.sales" : "inbox.suport", {
          messageId: `routed:${data.id}`,
          title: `Mail: ${data.subject}`,
        });
      },
    }),
  },
});
