// finds missing-title 12

export default Keep.workflow({
  name: "calendar-watch",
  topics: ["meeting.soon"],
  producers: {
    watch: {
      schedule: { interval: "15m" },
      handler: async (ctx) => {
        const meetings = await ctx.calendar.listEvents({ after: new Date().toISOString() });
        for (const meeting of meetings) {
          await ctx.publish("meeting.soon", { messageId: meeting.id, payload: meeting });
        }
      },
    },
  },
});
