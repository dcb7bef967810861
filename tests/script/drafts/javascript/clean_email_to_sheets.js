// finds nothing

export default Keep.workflow({
  name: "email-to-sheets",
  topics: { "email.received": {}, "row.created": {} },
  producers: {
    pollEmail: {
      schedule: { interval: "5m" },
      publishes: ["email.received"],
      async handler(ctx, state) {
        const emails = await ctx.gmail.search({ query: "newer_than:1d", after: state?.cursor });
        for (const { id, from, subject } of emails) {
          await ctx.publish("email.received", {
            messageId: id,
            title: `Email from ${from}: "${subject}"`,
            payload: { id, from, subject },
          });
        }
        return { cursor: emails.lastCursor };
      },
    },
  },
  consumers: {
    processEmail: Keep.consumer({
      subscribe: ["email.received"],
      async prepare(ctx, state) {
        const pending = await ctx.peek("email.received", { limit: 1 });
        if (pending.length === 0) return { reservations: [], data: {} };
        const event = pending[0];
        return {
          reservations: [{ topic: "email.received", ids: [event.messageId] }],
          data: event.payload,
          ui: { title: `Add row for ${event.payload.from}` },
        };
      },
      async mutate(ctx, prepared) {
        await ctx.sheets.appendRow({
          spreadsheetId: "S1",
          values: [prepared.data.from, prepared.data.subject],
        });
      },
      async next(ctx, prepared, mutationResult, state) {
        if (mutationResult.status === "applied") {
          await ctx.publish("row.created", {
            messageId: `row:${prepared.data.id}`,
            title: `Row for ${prepared.data.from}`,
            payload: { row: mutationResult.result.rowId },
          });
        }
        return { rows: (state?.rows ?? 0) + 1 };
      },
    }),
  },
});
