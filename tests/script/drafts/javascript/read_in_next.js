// finds forbidden-call 3

const loadIssue = (github, number) => github.getIssue({ repo: "acme/app", number });

export default Keep.workflow({
  name: "comment-and-tell",
  topics: ["issue.reply", "issue.replied"],
  consumers: {
    reply: Keep.consumer({
      subscribe: ["issue.reply"],
      async prepare(ctx) {
        const [event] = await ctx.peek("issue.reply", { limit: 1 });
        if (!event) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "issue.reply", ids: [event.messageId] }],
          data: event.payload,
          ui: { title: `Reply to #${event.payload.number}` },
        };
      },
      async mutate(ctx, { data }) {
        await ctx.github.addComment({ repo: "acme/app", number: data.number, body: data.body });
      },
      async next(ctx, prepared, mutationResult) {
        if (mutationResult.status !== "applied") return;
        const issue = await loadIssue(ctx.github, prepared.data.number);
        await ctx.publish("issue.replied", {
          messageId: `reply:${mutationResult.result.id}`,
          title: `Replied to "${issue.title}"`,
          payload: { number: prepared.data.number },
        });
      },
    }),
  },
});
