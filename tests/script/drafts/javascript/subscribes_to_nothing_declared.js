// finds undeclared-topic 7
// finds undeclared-topic 10
// finds undeclared-topic 12
// finds undeclared-topic 15

const reportConsumer = Keep.consumer({
  subscribe: ["report.ready"],
  publishes: ["report.sent"],
  async prepare(ctx) {
    const [report] = await ctx.peek("reports", { limit: 1 });
    if (!report) return { reservations: [], data: {} };
    return { reservations: [{ topic: "report.ready", ids: [report.id] }], data: report.payload };
  },
  async next(ctx, prepared) {
    await ctx.publish("report.log", {
      messageId: prepared.data.id,
      title: `Report ${prepared.data.id} sent`,
    });
  },
});

export default Keep.workflow({
  name: "reports",
  topics: ["report.sent", "report.log"],
  consumers: { reportConsumer },
});
// finds empty-look 16
