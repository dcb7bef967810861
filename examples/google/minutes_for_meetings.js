// Minutes for meetings: each event of a Google calendar gets an empty file for its minutes.

export default Keep.workflow({
  name: "minutes-for-meetings",

  topics: ["meeting.planned"],

  producers: {
    look: {
      schedule: { interval: "1h" },
      publishes: ["meeting.planned"],
      handler: async (ctx) => {
        const now = await ctx.clock.now({});
        const end = await ctx.clock.next({ at: "23:59", weekday: "sunday" });
        const events = await ctx.googleCalendar.list({ start: now.iso, end });
        for (const event of events) {
          await ctx.publish("meeting.planned", {
            messageId: event.id,
            title: event.title || "(no title)",
            payload: { title: event.title, start: event.start },
          });
        }
      },
    },
  },

  consumers: {
    prepareMinutes: Keep.consumer({
      subscribe: ["meeting.planned"],

      async prepare(ctx) {
        const [meeting] = await ctx.peek("meeting.planned", { limit: 1 });
        if (!meeting) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "meeting.planned", ids: [meeting.messageId] }],
          data: meeting.payload,
          ui: { title: `Minutes for ${meeting.title}` },
        };
      },

      async mutate(ctx, prepared) {
        const { title, start } = prepared.data;
        const day = start.slice(0, 10);
        await ctx.drive.create({
          name: `${day} ${title}.txt`,
          text: `${title}, ${day}\n\nPresent:\n`,
        });
      },
    }),
  },
});
