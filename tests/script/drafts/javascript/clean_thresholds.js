// finds nothing

class Tally {
  constructor(counts = {}) {
    this.counts = counts;
  }
  add(name) {
    this.counts[name] = (this.counts[name] ?? 0) + 1;
    return this.counts[name];
  }
}

export default Keep.workflow({
  name: "thresholds",
  topics: { click: { ingress: true }, "threshold.reached": {} },
  consumers: {
    count: Keep.consumer({
      subscribe: ["click"],
      async prepare(ctx, state) {
        const clicks = await ctx.peek("click", { limit: 500 });
        if (clicks.length === 0) return { reservations: [], data: { reached: [], counts: state ?? {} } };
        const tally = new Tally({ ...state });
        const reached = [];
        clicks.forEach((click) => {
          const count = tally.add(click.payload.name);
          if (count === 100) reached.push(click.payload.name);
        });
        const ids = clicks.map((c) => c.messageId);
        return { reservations: [{ topic: "click", ids }], data: { reached, counts: tally.counts } };
      },
      async next(ctx, prepared) {
        const { reached, counts } = prepared.data;
        for (const name of reached) {
          await ctx.publish("threshold.reached", {
            messageId: `${name}:100`,
            title: `${name} reached 100 clicks`,
            payload: { name },
          });
        }
        return counts;
      },
    }),
    tell: Keep.consumer({
      subscribe: ["threshold.reached"],
      async prepare(ctx) {
        const [event = null] = await ctx.peek("threshold.reached", { limit: 1 });
        return event === null
          ? { reservations: [], data: {} }
          : {
              reservations: [{ topic: event.topic, ids: [event.id] }],
              data: { name: event.payload.name },
              ui: { title: `Tell that ${event.payload.name} reached 100` },
            };
      },
      async mutate(ctx, { data }) {
        await ctx.slack.postMessage({ channel: "#growth", text: `${data.name} reached 100 clicks` });
      },
    }),
  },
});
