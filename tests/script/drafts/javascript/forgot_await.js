// finds not-awaited 11
// finds not-awaited 13

export default Keep.workflow({
  name: "unread-count",
  topics: ["unread"],
  producers: {
    count: {
      schedule: { interval: "30m" },
      handler: async (ctx) => {
        const mails = ctx.gmail.search({ query: "is:unread" });
        const day = new Date().toISOString().slice(0, 10);
        ctx.publish("unread", { messageId: day, title: `${mails.length} unread on ${day}` });
      },
    },
  },
});
