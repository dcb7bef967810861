// finds code-after-mutation 21

export default Keep.workflow({
  name: "issue-comments",
  topics: ["issue.stale"],
  consumers: {
    nudge: Keep.consumer({
      subscribe: ["issue.stale"],
      async prepare(ctx) {
        const issues = await ctx.peek("issue.stale", { limit: 1 });
        if (!issues.length) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "issue.stale", ids: issues.map((i) => i.messageId) }],
          data: issues[0].payload,
          ui: { title: `Nudge #${issues[0].payload.number}` },
        };
      },
      async mutate(ctx, prepared) {
        await ctx.github
          .addComment({ repo: "acme/app", number: prepared.data.number, body: "Still open?" })
          .then((comment) => console.log(comment.id));
      },
    }),
  },
});
