// finds constant-title 16

const TITLE = "New issue";

export default Keep.workflow({
  name: "issues",
  topics: ["issue.opened"],
  producers: {
    poll: {
      schedule: { interval: "5m" },
      handler: async (ctx, state) => {
        const issues = await ctx.github.listIssues({ repo: "acme/app", since: state?.since });
        for (const issue of issues) {
          await ctx.publish("issue.opened", {
            messageId: String(issue.number),
            title: TITLE,
            payload: issue,
          });
        }
        return { since: new Date().toISOString() };
      },
    },
  },
});
