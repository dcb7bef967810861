// finds mutate-without-title 13

export default Keep.workflow({
  name: "receipts",
  topics: ["receipt"],
  consumers: {
    book: Keep.consumer({
      subscribe: ["receipt"],
      async prepare(ctx) {
        const receipts = await ctx.peek("receipt", { limit: 1 });
        if (receipts.length === 0) return { reservations: [], data: {} };
        const [receipt] = receipts;
        return {
          reservations: [{ topic: "receipt", ids: [receipt.messageId] }],
          data: { amount: receipt.payload.amount },
        };
      },
      async mutate(ctx, { data }) {
        await ctx.sheets.appendRow({ spreadsheetId: "books", values: [data.amount] });
      },
    }),
  },
});
