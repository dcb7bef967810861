// finds nothing

const REPOS = ["acme/app", "acme/api"];
const newest = (issues) => issues.reduce((last, issue) => (issue.number > last ? issue.number : last), 0);

async function bugsOf(ctx, repo) {
  const issues = await ctx.github.listIssues({ repo, state: "open" });
  return issues.filter((issue) => issue.labels?.includes("bug")).map((issue) => ({ ...issue, repo }));
}

export default Duly.workflow({
  name: "bugs",
  topics: ["bug.seen"],
  producers: {
    look: {
      schedule: { interval: "1h" },
      handler: async (ctx, state) => {
        const [app, api] = await Promise.all(REPOS.map((repo) => bugsOf(ctx, repo)));
        const seen = state ?? { app: 0, api: 0 };
        const fresh = [
          ...app.filter((issue) => issue.number > seen.app),
          ...api.filter((issue) => issue.number > seen.api),
        ];
        for (const bug of fresh) {
          await ctx.publish("bug.seen", {
            messageId: `${bug.repo}#${bug.number}`,
            title: `Bug ${bug.repo}#${bug.number}: ${bug.title}`,
            payload: { repo: bug.repo, number: bug.number },
          });
        }
        return { app: Math.max(seen.app, newest(app)), api: Math.max(seen.api, newest(api)) };
      },
    },
  },
  consumers: {
    thank: Keep.consumer({
      subscribe: ["bug.seen"],
      async prepare(ctx) {
        const pending = await ctx.peek("bug.seen", { limit: 1 });
        if (pending.length === 0) return { reservations: [], data: {} };
        const { payload, messageId, title } = pending[0];
        const issue = await ctx.github.getIssue({ repo: payload.repo, number: payload.number });
        const isOpen = issue?.state === "open";
        return {
          reservations: [{ topic: "bug.seen", ids: [messageId] }],
          data: { ...payload, isOpen },
          ui: { title: `Thank for ${title}` },
        };
      },
      async mutate(ctx, { data }) {
        if (!data.isOpen) return;
        await ctx.github.addComment({ repo: data.repo, number: data.number, body: "Thank you!" });
      },
    }),
  },
});
