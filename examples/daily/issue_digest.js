// Issue digest: the issues of GitHub that changed since yesterday, in one message of Slack.

const REPO = "ada/tea";
const CHANNEL = "C024BE91L";

export default Keep.workflow({
  name: "issue-digest",

  topics: ["issue.changed"],

  producers: {
    look: {
      schedule: { cron: "0 8 * * 1-5" },
      publishes: ["issue.changed"],
      handler: async (ctx, state) => {
        const issues = await ctx.github.issues({ repo: REPO, after: state?.cursor });
        for (const issue of issues) {
          await ctx.publish("issue.changed", {
            messageId: `${issue.number} ${issue.updated_at}`,
            title: `Issue #${issue.number}: ${issue.title}`,
            payload: { number: issue.number, title: issue.title, url: issue.url },
          });
        }
        return { cursor: issues.lastCursor };
      },
    },
  },

  consumers: {
    digest: Keep.consumer({
      subscribe: ["issue.changed"],

      async prepare(ctx) {
        const pending = await ctx.peek("issue.changed", { limit: 50 });
        if (pending.length === 0) return { reservations: [], data: {} };
        const lines = pending.map(({ payload }) => `#${payload.number} ${payload.title} (${payload.url})`);
        return {
          reservations: [{ topic: "issue.changed", ids: pending.map((each) => each.messageId) }],
          data: { text: `Issues that changed:\n${lines.join("\n")}` },
          ui: { title: `Digest of ${pending.length} issues` },
        };
      },

      async mutate(ctx, prepared) {
        await ctx.slack.post({ channel: CHANNEL, text: prepared.data.text });
      },
    }),
  },
});
