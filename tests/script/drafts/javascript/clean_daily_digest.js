// finds nothing

const HOUR_MS = 3600 * 1000;

function nextMorning(now) {
  const at = new Date(now);
  at.setUTCHours(9, 0, 0, 0);
  return (at.getTime() > now ? at : new Date(at.getTime() + 24 * HOUR_MS)).toISOString();
}

const lines = (items) => items.map((item, index) => `${index + 1}. ${item.title}`).join("\n");

export default Keep.workflow({
  name: "daily-digest",
  topics: { notification: { ingress: true } },
  consumers: {
    digest: Keep.consumer({
      subscribe: ["notification"],
      async prepare(ctx, state) {
        const pending = await ctx.peek("notification", { limit: 200 });
        const now = Date.now();
        const wakeAt = nextMorning(now);
        const isTime = now - (state?.sentAt ?? 0) > 20 * HOUR_MS;
        if (!isTime || pending.length === 0) return { reservations: [], data: {}, wakeAt };
        return {
          reservations: [{ topic: "notification", ids: pending.map((e) => e.id) }],
          data: { text: lines(pending), sentAt: now },
          ui: { title: `Send digest of ${pending.length} notifications` },
          wakeAt,
        };
      },
      async mutate(ctx, prepared) {
        await ctx.gmail.send({ to: "me@example.com", subject: "Digest", body: prepared.data.text });
      },
      async next(ctx, prepared, mutationResult, state) {
        return mutationResult.status === "applied" ? { sentAt: prepared.data.sentAt } : state;
      },
    }),
  },
});
