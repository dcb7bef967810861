// finds catches-tool-errors 19

export default Keep.workflow({
  name: "weekly-report",
  topics: ["report.due"],
  consumers: {
    send: Keep.consumer({
      subscribe: ["report.due"],
      async prepare(ctx) {
        const [due] = await ctx.peek("report.due", { limit: 1 });
        if (!due) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "report.due", ids: [due.messageId] }],
          data: due.payload,
          ui: { title: `Send the report of week ${due.payload.week}` },
        };
      },
      async mutate(ctx, { data }) {
        await ctx.gmail.send({ to: data.to, subject: `Week ${data.week}`, body: data.text }).catch(() => {});
      },
    }),
  },
});
