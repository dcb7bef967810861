// finds nothing

const cache = new Map();

async function authorOf(ctx, id) {
  if (!cache.has(id)) {
    const mail = await ctx.gmail.get({ id });
    cache.set(id, mail.from);
  }
  return cache.get(id);
}

export default Keep.workflow({
  name: "authors",
  topics: ["thread"],
  producers: {
    collect: {
      schedule: { interval: "1d" },
      handler: async (ctx) => {
        const mails = await ctx.gmail.search({ query: "label:team" });
        for (const mail of mails) {
          const author = await authorOf(ctx, mail.threadId);
          await ctx.publish("thread", {
            messageId: mail.threadId,
            title: "Thread by " + author,
            payload: { author },
          });
        }
      },
    },
  },
});
