// finds several-mutations 4

async function tell(ctx, text) {
  await ctx.slack.postMessage({ channel: "#ops", text });
}

export default Keep.workflow({
  name: "incidents",
  topics: ["incident"],
  consumers: {
    open: Keep.consumer({
      subscribe: ["incident"],
      async prepare(ctx) {
        const [incident] = await ctx.peek("incident", { limit: 1 });
        if (!incident) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "incident", ids: [incident.id] }],
          data: incident.payload,
          ui: { title: `Open issue for ${incident.title}` },
        };
      },
      async mutate(ctx, prepared) {
        const { data } = prepared;
        if (data.severity > 2) {
          await ctx.github.createIssue({ repo: "acme/ops", title: data.summary });
        }
        await tell(ctx, data.summary);
      },
    }),
  },
});
