// Slack to issue: a message that begins with "bug:" opens an issue, then gets a check mark.

const REPO = "ada/tea";
const CHANNEL = "C024BE91L";

export default Keep.workflow({
  name: "slack-to-issue",

  topics: ["bug.told", "bug.filed"],

  producers: {
    look: {
      schedule: { interval: "1m" },
      publishes: ["bug.told"],
      handler: async (ctx, state) => {
        const messages = await ctx.slack.history({ channel: CHANNEL, after: state?.cursor });
        for (const { id, user, text } of messages) {
          if (!text.toLowerCase().startsWith("bug:")) continue;
          const title = text.slice(4).trim().split("\n")[0].slice(0, 200) || "(no words)";
          await ctx.publish("bug.told", {
            messageId: id,
            title: `Message ${id} of ${user}: "${title}"`,
            payload: { id, user, title, text },
          });
        }
        return { cursor: messages.lastCursor };
      },
    },
  },

  consumers: {
    file: Keep.consumer({
      subscribe: ["bug.told"],
      publishes: ["bug.filed"],

      async prepare(ctx) {
        const [bug] = await ctx.peek("bug.told", { limit: 1 });
        if (!bug) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "bug.told", ids: [bug.messageId] }],
          data: bug.payload,
          ui: { title: `Open an issue for ${bug.title}` },
        };
      },

      async mutate(ctx, prepared) {
        const { title, user, text } = prepared.data;
        await ctx.github.createIssue({
          repo: REPO,
          title,
          text: `${user} wrote in Slack:\n\n${text}`,
        });
      },

      async next(ctx, prepared, result) {
        if (result.status !== "applied") return;
        const { id, title } = prepared.data;
        await ctx.publish("bug.filed", {
          messageId: id,
          title: `Bug "${title}" of message ${id} was filed`,
          payload: { id, title },
        });
      },
    }),

    mark: Keep.consumer({
      subscribe: ["bug.filed"],

      async prepare(ctx) {
        const [bug] = await ctx.peek("bug.filed", { limit: 1 });
        if (!bug) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "bug.filed", ids: [bug.messageId] }],
          data: bug.payload,
          ui: { title: `Mark the message about "${bug.payload.title}"` },
        };
      },

      async mutate(ctx, prepared) {
        const { id } = prepared.data;
        await ctx.slack.react({ channel: CHANNEL, ts: id, emoji: "white_check_mark" });
      },
    }),
  },
});
