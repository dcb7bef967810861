// finds forbidden-call 19

export default Keep.workflow({
  name: "dedupe-rows",
  topics: ["contact.found"],
  consumers: {
    store: Keep.consumer({
      subscribe: ["contact.found"],
      async prepare(ctx) {
        const [contact] = await ctx.peek("contact.found", { limit: 1 });
        if (!contact) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "contact.found", ids: [contact.messageId] }],
          data: contact.payload,
          ui: { title: `Store ${contact.payload.email}` },
        };
      },
      async mutate(ctx, { data }) {
        const rows = await ctx.sheets.search({ spreadsheetId: "crm", query: data.email });
        if (rows.length > 0) return;
        await ctx.sheets.appendRow({ spreadsheetId: "crm", values: [data.email] });
      },
    }),
  },
});
