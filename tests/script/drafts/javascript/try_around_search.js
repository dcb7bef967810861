// finds catches-tool-errors 11

export default Keep.workflow({
  name: "mail-poll",
  topics: ["mail"],
  producers: {
    poll: {
      schedule: { interval: "10m" },
      handler: async (ctx, state = {}) => {
        let mails = [];
        try {
          mails = await ctx.gmail.search({ after: state.cursor });
        } catch (error) {
          console.error("gmail is down", error);
          return state;
        }
        for (const mail of mails) {
          await ctx.publish("mail", { messageId: mail.id, title: `Mail "${mail.subject}"`, payload: mail });
        }
        return { cursor: mails.lastCursor };
      },
    },
  },
});
