// finds unstable-message-id 14

export default Keep.workflow({
  name: "mentions",
  topics: ["mention"],
  producers: {
    listen: {
      schedule: { interval: "2m" },
      handler: async (ctx) => {
        const messages = await ctx.slack.listMessages({ channel: "#general" });
        for (const message of messages.filter((m) => m.text.includes("@duly"))) {
          const messageId = `mention-${Date.now()}-${Math.random()}`;
          await ctx.publish("mention", {
            messageId,
            title: `${message.user} said "${message.text.slice(0, 40)}"`,
            payload: message,
          });
        }
      },
    },
  },
});
