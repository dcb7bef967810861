// Meeting reminders: a message on Telegram before each event of the next 24 hours.

const CHAT = -100123;
const DAY_MS = 24 * 60 * 60 * 1000;

export default Keep.workflow({
  name: "meeting-reminders",

  topics: ["meeting.near"],

  producers: {
    look: {
      schedule: { interval: "15m" },
      publishes: ["meeting.near"],
      handler: async (ctx) => {
        const now = await ctx.clock.now({});
        const end = new Date(now.unix_ms + DAY_MS).toISOString();
        const events = await ctx.googleCalendar.list({ start: now.iso, end });
        for (const { id, title, start } of events) {
          await ctx.publish("meeting.near", {
            messageId: `${id} ${start}`,
            title: `Meeting "${title}" at ${start}`,
            payload: { title, start },
          });
        }
      },
    },
  },

  consumers: {
    remind: Keep.consumer({
      subscribe: ["meeting.near"],

      async prepare(ctx) {
        const [meeting] = await ctx.peek("meeting.near", { limit: 1 });
        if (!meeting) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "meeting.near", ids: [meeting.messageId] }],
          data: meeting.payload,
          ui: { title: `Remind of ${meeting.title}` },
        };
      },

      async mutate(ctx, prepared) {
        const { title, start } = prepared.data;
        await ctx.telegram.send({ chat: CHAT, text: `${title} begins at ${start}` });
      },
    }),
  },
});
