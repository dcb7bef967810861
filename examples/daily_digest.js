// Daily digest: notes are gathered all day and posted together at nine in the morning (UTC).
//
// Every file in inbox/ is a note, named after it; every digest is a letter in outbox/.

const HOUR_MS = 60 * 60 * 1000;
const DIGEST_AT_HOUR = 9;

// The last nine o'clock that has passed, and the next one.
function digestTimes() {
  const last = new Date();
  last.setUTCHours(DIGEST_AT_HOUR, 0, 0, 0);
  if (last.getTime() > Date.now()) last.setTime(last.getTime() - 24 * HOUR_MS);
  return { last, next: new Date(last.getTime() + 24 * HOUR_MS) };
}

export default Keep.workflow({
  name: "daily-digest",

  topics: { "note.written": { ingress: true }, "digest.posted": {} },

  producers: {
    look: {
      schedule: { interval: "1m" },
      publishes: ["note.written"],
      handler: async (ctx, state) => {
        const files = await ctx.inbox.search({ pattern: "*.txt", after: state?.cursor });
        for (const file of files) {
          const name = file.path.replace(/\.txt$/, "");
          await ctx.publish("note.written", { messageId: name, title: name });
        }
        return { cursor: files.lastCursor };
      },
    },
  },

  consumers: {
    digest: Keep.consumer({
      subscribe: ["note.written"],

      async prepare(ctx, state) {
        const { last, next } = digestTimes();
        const at = last.getTime();
        const wakeAt = next.toISOString();
        // The first run only learns what time it is; from then on nine o'clock is noticed once.
        const isDue = state !== undefined && state.digestAt < at;
        const notes = isDue ? await ctx.peek("note.written") : [];
        if (notes.length === 0) return { reservations: [], data: { at }, wakeAt };
        const day = last.toISOString().slice(0, 10);
        return {
          reservations: [{ topic: "note.written", ids: notes.map((note) => note.id) }],
          data: { at, day, titles: notes.map((note) => note.title) },
          ui: { title: `Post a digest of ${notes.length} notes` },
          wakeAt,
        };
      },

      async mutate(ctx, prepared) {
        const lines = prepared.data.titles.map((title) => `- ${title}\n`);
        await ctx.outbox.write({ path: `${prepared.data.day}.txt`, text: lines.join("") });
      },

      async next(ctx, prepared, mutationResult) {
        if (mutationResult.status === "applied") {
          await ctx.publish("digest.posted", {
            messageId: `digest:${prepared.data.at}`,
            title: `Digest of ${prepared.data.titles.length} notes`,
            payload: { titles: prepared.data.titles },
          });
        }
        return { digestAt: prepared.data.at };
      },
    }),
  },
});
