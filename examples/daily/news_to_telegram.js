// News to Telegram: each new entry of a feed is sent to a chat.

const CHAT = -100123;

export default Keep.workflow({
  name: "news-to-telegram",

  topics: ["entry.published"],

  producers: {
    look: {
      schedule: { interval: "10m" },
      publishes: ["entry.published"],
      handler: async (ctx, state) => {
        const entries = await ctx.feed.items({ after: state?.cursor });
        for (const entry of entries) {
          await ctx.publish("entry.published", {
            messageId: entry.id,
            title: `Entry "${entry.title}" (${entry.link})`,
            payload: { title: entry.title, link: entry.link },
          });
        }
        return { cursor: entries.lastCursor };
      },
    },
  },

  consumers: {
    tell: Keep.consumer({
      subscribe: ["entry.published"],

      async prepare(ctx) {
        const [entry] = await ctx.peek("entry.published", { limit: 1 });
        if (!entry) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "entry.published", ids: [entry.messageId] }],
          data: entry.payload,
          ui: { title: `Send ${entry.title}` },
        };
      },

      async mutate(ctx, prepared) {
        const { title, link } = prepared.data;
        await ctx.telegram.send({ chat: CHAT, text: `${title}\n${link}` });
      },
    }),
  },
});
