// finds forbidden-call 13

export default Keep.workflow({
  name: "triage",
  topics: ["mail", "mail.urgent"],
  consumers: {
    triage: Keep.consumer({
      subscribe: ["mail"],
      async prepare(ctx) {
        const [mail] = await ctx.peek("mail", { limit: 1 });
        if (!mail) return { reservations: [], data: {} };
        if (/urgent/i.test(mail.payload.subject)) {
          await ctx.publish("mail.urgent", { messageId: mail.id, title: `Urgent: ${mail.title}` });
        }
        return { reservations: [{ topic: "mail", ids: [mail.id] }], data: {} };
      },
    }),
  },
});
