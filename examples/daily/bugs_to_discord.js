// Bugs to Discord: each issue of GitHub with the label bug is told in a channel.

const REPO = "ada/tea";
const CHANNEL = "1100000000000000001";

export default Keep.workflow({
  name: "bugs-to-discord",

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
    tell: Keep.consumer({
      subscribe: ["bug.opened"],

      async prepare(ctx) {
        const [bug] = await ctx.peek("bug.opened", { limit: 1 });
        if (!bug) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "bug.opened", ids: [bug.messageId] }],
          data: bug.payload,
          ui: { title: `Tell of ${bug.title}` },
        };
      },

      async mutate(ctx, prepared) {
        const { number, title, url } = prepared.data;
        await ctx.discord.send({ channel: CHANNEL, text: `Bug ${number}: ${title}\n${url}` });
      },
    }),
  },
});
