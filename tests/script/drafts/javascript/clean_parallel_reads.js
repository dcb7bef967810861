// finds nothing

const REPOS = ["acme/app", "acme/api"];

async function openIssues(ctx, repo, since) {
  const issues = await ctx.github.listIssues({ repo, state: "open", since });
  return issues.map((issue) => ({ ...issue, repo }));
}

export default Keep.workflow({
  name: "issue-feed",
  topics: ["issue"],
  producers: {
    poll: {
      schedule: { cron: "*/10 * * * *" },
      handler: async (ctx, state) => {
        const lists = await Promise.all(REPOS.map((repo) => openIssues(ctx, repo, state?.since)));
        let newest = state?.since ?? "";
        for (const issue of lists.flat()) {
          if (issue.updated_at > newest) newest = issue.updated_at;
          await ctx.publish("issue", {
            messageId: `${issue.repo}#${issue.number}`,
            title: `Issue ${issue.repo}#${issue.number}: "${issue.title}"`,
            payload: issue,
          });
        }
        return { since: newest };
      },
    },
  },
});
