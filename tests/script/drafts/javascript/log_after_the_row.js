// finds code-after-mutation 39

export default Keep.workflow({
  name: "email-to-sheets",
  topics: ["email.received"],
  producers: {
    pollEmail: {
      schedule: { interval: "5m" },
      handler: async (ctx, state) => {
        const emails = await ctx.gmail.search({ query: "is:unread", after: state?.cursor });
        for (const email of emails) {
          await ctx.publish("email.received", {
            messageId: email.id,
            title: `Email from ${email.from}: "${email.subject}"`,
            payload: { from: email.from, subject: email.subject },
          });
        }
        return { cursor: emails.lastCursor };
      },
    },
  },
  consumers: {
    addRow: Keep.consumer({
      subscribe: ["email.received"],
      async prepare(ctx) {
        const [event] = await ctx.peek("email.received", { limit: 1 });
        if (!event) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "email.received", ids: [event.messageId] }],
          data: event.payload,
          ui: { title: `Add row for ${event.payload.from}` },
        };
      },
      async mutate(ctx, prepared) {
        await ctx.sheets.appendRow({
          spreadsheetId: "inbox",
          values: [prepared.data.from, prepared.data.subject],
        });
        console.log("row added");
      },
    }),
  },
});
