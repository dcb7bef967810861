// finds unknown-tool 11
// finds unknown-tool 22

export default Keep.workflow({
  name: "sheet-import",
  topics: ["row.wanted"],
  consumers: {
    add: Keep.consumer({
      subscribe: ["row.wanted"],
      async prepare(ctx) {
        const rows = await ctx.sheets.readRange({ spreadsheetId: "S1", range: "A1:B" });
        const [wanted] = await ctx.peek("row.wanted", { limit: 1 });
        if (!wanted || rows.length > 100) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "row.wanted", ids: [wanted.id] }],
          data: wanted.payload,
          ui: { title: `Add ${wanted.title}` },
        };
      },
      async mutate(ctx, { data }) {
        const { sheets } = ctx;
        await sheets.addRow({ spreadsheetId: "S1", values: data.values });
      },
    }),
  },
});
