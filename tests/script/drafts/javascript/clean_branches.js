// finds nothing

const CHANNELS = Object.freeze({ high: "#urgent", low: "#later" });

const pick = (priority) => CHANNELS[priority] ?? "#general";

export default Keep.workflow({
  name: "one way or the other",
  topics: ["request"],
  consumers: {
    act: Keep.consumer({
      subscribe: ["request"],
      async prepare(ctx) {
        const [request] = await ctx.peek("request", { limit: 1 });
        if (!request) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "request", ids: [request.messageId] }],
          data: request.payload,
          ui: { title: `Act on ${request.title}` },
        };
      },
      async mutate(ctx, { data }) {
        if (data.kind === "bug") {
          await ctx.github.createIssue({ repo: "acme/app", title: data.text, labels: ["bug"] });
        } else if (data.kind === "meeting") {
          return ctx.calendar.createEvent({ title: data.text, start: data.start, end: data.end });
        } else {
          await ctx.slack.postMessage({ channel: pick(data.priority), text: data.text });
        }
      },
    }),
  },
});
