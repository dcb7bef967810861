// finds catches-tool-errors 24
// finds code-after-mutation 27

const post = async (ctx, channel, text) => {
  await ctx.slack.postMessage({ channel, text });
};

export default Keep.workflow({
  name: "alerts",
  topics: ["alert"],
  consumers: {
    forward: Keep.consumer({
      subscribe: ["alert"],
      async prepare(ctx) {
        const [alert] = await ctx.peek("alert", { limit: 1 });
        if (!alert) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "alert", ids: [alert.id] }],
          data: { text: alert.title },
          ui: { title: `Forward "${alert.title}"` },
        };
      },
      async mutate(ctx, prepared) {
        try {
          await post(ctx, "#alerts", prepared.data.text);
        } finally {
          console.log("done");
        }
      },
    }),
  },
});
