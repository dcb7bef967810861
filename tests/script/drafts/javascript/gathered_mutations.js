// finds several-mutations 32

export default Keep.workflow({
  name: "standup",
  topics: ["standup.due"],
  producers: {
    everyMorning: {
      schedule: { cron: "0 9 * * 1-5", timezone: "Europe/Berlin" },
      handler: async (ctx) => {
        const day = new Date().toISOString().slice(0, 10);
        await ctx.publish("standup.due", { messageId: day, title: `Standup of ${day}`, payload: { day } });
      },
    },
  },
  consumers: {
    invite: Keep.consumer({
      subscribe: ["standup.due"],
      async prepare(ctx) {
        const [due] = await ctx.peek("standup.due", { limit: 1 });
        if (!due) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "standup.due", ids: [due.messageId] }],
          data: due.payload,
          ui: { title: `Invite to the standup of ${due.payload.day}` },
        };
      },
      async mutate(ctx, { data }) {
        const start = `${data.day}T09:15:00Z`;
        const end = `${data.day}T09:30:00Z`;
        await Promise.all([
          ctx.calendar.createEvent({ title: "Standup", start, end }),
          ctx.slack.postMessage({ channel: "#team", text: "Standup in 15 minutes" }),
        ]);
      },
    }),
  },
});
// finds runs-at-deploy 11
