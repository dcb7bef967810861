// finds several-mutations 20

export default Keep.workflow({
  name: "leads",
  topics: ["lead.new"],
  consumers: {
    handle: Keep.consumer({
      subscribe: ["lead.new"],
      async prepare(ctx) {
        const [lead] = await ctx.peek("lead.new", { limit: 1 });
        if (!lead) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "lead.new", ids: [lead.messageId] }],
          data: lead.payload,
          ui: { title: `File lead ${lead.payload.email}` },
        };
      },
      async mutate(ctx, { data }) {
        await ctx.sheets.appendRow({ spreadsheetId: "leads", values: [data.email, data.company] });
        await ctx.slack.postMessage({ channel: "#sales", text: `New lead: ${data.email}` });
      },
    }),
  },
});
