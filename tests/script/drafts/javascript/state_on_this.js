// finds shared-global 12

export default Keep.workflow({
  name: "pinned",
  topics: ["pin"],
  consumers: {
    pin: Keep.consumer({
      subscribe: ["pin"],
      async prepare(ctx) {
        const [pin] = await ctx.peek("pin", { limit: 1 });
        if (!pin) return { reservations: [], data: {} };
        this.current = pin.payload;
        return {
          reservations: [{ topic: "pin", ids: [pin.messageId] }],
          data: {},
          ui: { title: `Pin ${pin.title}` },
        };
      },
      async mutate(ctx) {
        await ctx.slack.postMessage({ channel: "#pins", text: this.current.text });
      },
    }),
  },
});
