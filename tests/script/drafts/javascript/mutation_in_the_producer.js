// finds forbidden-call 12

export default Keep.workflow({
  name: "archive-newsletters",
  topics: ["newsletter.archived"],
  producers: {
    sweep: {
      schedule: { interval: "1h" },
      async handler(ctx, state) {
        const mails = await ctx.gmail.search({ query: "category:promotions" });
        for (const mail of mails) {
          await ctx.gmail.archive({ id: mail.id });
          await ctx.publish("newsletter.archived", {
            messageId: mail.id,
            title: `Archived "${mail.subject}"`,
            payload: {},
          });
        }
      },
    },
  },
});
