// finds wrong-result 12
// finds wrong-result 16

export default Keep.workflow({
  name: "backlog",
  topics: ["idea"],
  consumers: {
    keep: Keep.consumer({
      subscribe: ["idea"],
      async prepare(ctx) {
        const ideas = await ctx.peek("idea");
        if (ideas.length === 0) return null;
        return {
          reservations: [{ topic: "idea", ids: [ideas[0].id] }],
          data: ideas[0].payload,
          title: `Keep "${ideas[0].title}"`,
          ui: { title: `Keep "${ideas[0].title}"` },
        };
      },
      async mutate(ctx, prepared) {
        await ctx.notion.createPage({ databaseId: "ideas", properties: prepared.data });
      },
    }),
  },
});
