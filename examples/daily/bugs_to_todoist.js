// Bugs to Todoist: each issue of GitHub with the label bug becomes a task.

const REPO = "ada/tea";

export default Keep.workflow({
  name: "bugs-to-todoist",

  topics: ["bug.opened"],

  producers: {
    look: {
      schedule: { interval: "15m" },
      publishes: ["bug.opened"],
      handler: async (ctx, state) => {
        const issues = await ctx.github.issues({ repo: REPO, labels: ["bug"], after: state?.cursor });
        for (const issue of issues) {
          await ctx.publish("bug.opened", {
            messageId: String(issue.number),
            title: `Issue #${issue.number}: ${issue.title}`,
            payload: { number: issue.number, title: issue.title, url: issue.url },
          });
        }
        return { cursor: issues.lastCursor };
      },
    },
  },

  consumers: {
    add: Keep.consumer({
      subscribe: ["bug.opened"],

      async prepare(ctx) {
        const [bug] = await ctx.peek("bug.opened", { limit: 1 });
        if (!bug) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "bug.opened", ids: [bug.messageId] }],
          data: bug.payload,
          ui: { title: `Add a task for ${bug.title}` },
        };
      },

      async mutate(ctx, prepared) {
        const { number, title, url } = prepared.data;
        const content = `Fix #${number}: ${title}`;
        await ctx.todoist.createTask({ content, description: url, priority: 3 });
      },
    }),
  },
});
