// finds nothing

const CHANNELS = { high: "#incidents", low: "#noise" };

function parse(body) {
  try {
    return JSON.parse(body);
  } catch {
    return { level: "low", text: body };
  }
}

export default Keep.workflow({
  name: "alerts",
  topics: { alert: { ingress: true } },
  consumers: {
    tell: {
      subscribe: ["alert"],
      prepare: async (ctx) => {
        const alerts = await ctx.peek("alert");
        if (!alerts.length) return { reservations: [], data: {} };
        const parsed = alerts.map((event) => ({ id: event.id, ...parse(event.payload.body) }));
        const worst = parsed.find((alert) => alert.level === "high") ?? parsed[0];
        return {
          reservations: [{ topic: "alert", ids: [worst.id] }],
          data: { level: worst.level, text: worst.text },
          ui: { title: "Tell of: " + worst.text },
        };
      },
      mutate: async (ctx, prepared) => {
        const { level, text } = prepared.data;
        switch (level) {
          case "high":
            await ctx.github.createIssue({ repo: "acme/ops", title: text, labels: ["incident"] });
            return;
          case "silent":
            return;
          default:
            await ctx.slack.postMessage({ channel: CHANNELS.low, text });
        }
      },
    },
  },
});
