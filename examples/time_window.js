// Time window: the first alarm opens an hour; at its end all that came in it is one message.

const WINDOW_MS = 60 * 60 * 1000;

export default Keep.workflow({
  name: "time-window",

  topics: { "alarm.raised": { ingress: true }, "window.closed": {} },

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
          data: { closesAt: null, closedAt: closesAt, titles: alarms.map((alarm) => alarm.title) },
          ui: { title: `Report ${alarms.length} alarms of the last hour` },
        };
      },

      async mutate(ctx, prepared) {
        const { titles } = prepared.data;
        const text = `${titles.length} alarms: ${titles.join(", ")}`;
        await ctx.chat.postMessage({ channel: "alarms", text });
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
