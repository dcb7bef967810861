// finds shared-global 6

const seen = new Map();

function remember(event) {
  seen.set(event.messageId, event.payload);
}

export default Keep.workflow({
  name: "invoices",
  topics: ["invoice", "invoice.filed"],
  consumers: {
    file: Keep.consumer({
      subscribe: ["invoice"],
      async prepare(ctx) {
        const [event] = await ctx.peek("invoice", { limit: 1 });
        if (!event) return { reservations: [], data: {} };
        remember(event);
        return {
          reservations: [{ topic: "invoice", ids: [event.messageId] }],
          data: { id: event.messageId },
          ui: { title: `File invoice ${event.payload.number}` },
        };
      },
      async mutate(ctx, { data }) {
        const invoice = seen.get(data.id);
        await ctx.sheets.appendRow({ spreadsheetId: "invoices", values: [invoice.number] });
      },
    }),
  },
});
