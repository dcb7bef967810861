// Time window: the first alarm opens an hour; at its end all that came in it is one letter.
//
// Every file in inbox/ is an alarm, named after it; every window is a letter in outbox/.

const WINDOW_MS = 60 * 60 * 1000;

export default Keep.workflow({
  name: "time-window",

  topics: { "alarm.raised": { ingress: true }, "window.closed": {} },

  producers: {
    look: {
      schedule: { interval: "1m" },
      publishes: ["alarm.raised"],
      handler: async (ctx, state) => {
        const files = await ctx.inbox.search({ pattern: "*.txt", after: state?.cursor });
        for (const file of files) {
          const name = file.path.replace(/\.txt$/, "");
          await ctx.publish("alarm.raised", { messageId: name, title: name });
        }
        return { cursor: files.lastCursor };
      },
    },
  },

  consumers: {
    gather: Keep.consumer({
      subscribe: ["alarm.raised"],
      publishes: ["window.closed"],

      async prepare(ctx, state) {
        const alarms = await ctx.peek("alarm.raised", { limit: 1000 });
        if (alarms.length === 0) return { reservations: [], data: { closesAt: null } };
        const closesAt = state?.closesAt ?? Date.now() + WINDOW_MS;
        // Every alarm wakes this consumer; until the window closes it only looks.
        if (Date.now() < closesAt) {
          return { reservations: [], data: { closesAt }, wakeAt: new Date(closesAt).toISOString() };
        }
        return {
          reservations: [{ topic: "alarm.raised", ids: alarms.map((alarm) => alarm.messageId) }],
          data: {
            closesAt: null,
            closedAt: closesAt,
            first: alarms[0].messageId,
            titles: alarms.map((alarm) => alarm.title),
          },
          ui: { title: `Report ${alarms.length} alarms of the last hour` },
        };
      },

      async mutate(ctx, prepared) {
        const { first, titles } = prepared.data;
        const text = `${titles.length} alarms: ${titles.join(", ")}\n`;
        await ctx.outbox.write({ path: `from ${first}.txt`, text });
      },

      async next(ctx, prepared, mutationResult) {
        if (mutationResult.status === "applied") {
          await ctx.publish("window.closed", {
            messageId: `window:${prepared.data.closedAt}`,
            title: `${prepared.data.titles.length} alarms in an hour`,
            payload: { titles: prepared.data.titles },
          });
        }
        return { closesAt: prepared.data.closesAt };
      },
    }),
  },
});
