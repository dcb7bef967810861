// Chat to Jira: a message of Slack that begins with "bug:" opens an issue of Jira.

const CHANNEL = "C024BE91L";
const PROJECT = "TEA";

export default Keep.workflow({
  name: "chat-to-jira",

  topics: ["bug.told"],

  producers: {
    look: {
      schedule: { interval: "1m" },
      publishes: ["bug.told"],
      handler: async (ctx, state) => {
        const messages = await ctx.slack.history({ channel: CHANNEL, after: state?.cursor });
        for (const { id, user, text } of messages) {
          if (!text.toLowerCase().startsWith("bug:")) continue;
          const summary = text.slice(4).trim().split("\n")[0].slice(0, 200) || "(no words)";
          await ctx.publish("bug.told", {
            messageId: id,
            title: `Message ${id} of ${user}: "${summary}"`,
            payload: { user, summary, text },
          });
        }
        return { cursor: messages.lastCursor };
      },
    },
  },

  consumers: {
    file: Keep.consumer({
      subscribe: ["bug.told"],

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
        const { user, summary, text } = prepared.data;
        const description = `${user} wrote in Slack: ${text}`;
        await ctx.jira.createIssue({ project: PROJECT, type: "Bug", summary, description });
      },
    }),
  },
});
