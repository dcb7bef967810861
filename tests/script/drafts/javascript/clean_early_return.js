// finds nothing

async function announce({ slack }, text) {
  return slack.postMessage({ channel: "#ops", text });
}

export default Keep.workflow({
  name: "guarded",
  topics: ["deploy.done"],
  consumers: {
    tell: Keep.consumer({
      subscribe: ["deploy.done"],
      async prepare(ctx) {
        const [deploy] = await ctx.peek("deploy.done", { limit: 1 });
        if (!deploy) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "deploy.done", ids: [deploy.messageId] }],
          data: deploy.payload,
          ui: { title: `Announce deploy of ${deploy.payload.service}` },
        };
      },
      async mutate(ctx, { data }) {
        if (data.isQuiet) return;
        const text = `${data.service} is at ${data.version}`;
        if (data.isBroken) {
          await ctx.github.createIssue({ repo: "acme/ops", title: text });
          return;
        }
        await announce(ctx, text);
      },
    }),
  },
});
