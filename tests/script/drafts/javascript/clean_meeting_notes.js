// finds nothing

const DAY_MS = 24 * 60 * 60 * 1000;

export default Keep.workflow({
  name: "meeting notes",
  topics: { "meeting.soon": {}, "page.made": {} },
  producers: {
    upcoming: {
      schedule: { cron: "0 7 * * 1-5", timezone: "Europe/Berlin" },
      async handler(ctx) {
        const after = new Date().toISOString();
        const before = new Date(Date.now() + DAY_MS).toISOString();
        const events = await ctx.calendar.listEvents({ after, before });
        const large = events.filter((event) => (event.attendees?.length ?? 0) > 3);
        for (const event of large) {
          await ctx.publish("meeting.soon", {
            messageId: event.id,
            title: `Meeting "${event.title}" at ${event.start}`,
            payload: { id: event.id, title: event.title, start: event.start },
          });
        }
      },
    },
  },
  consumers: {
    makePage: Keep.consumer({
      subscribe: ["meeting.soon"],
      async prepare(ctx, state) {
        const pending = await ctx.peek("meeting.soon", { limit: 20 });
        const now = Date.now();
        const next = pending.find((event) => Date.parse(event.payload.start) > now);
        const over = pending.filter((event) => event !== next).map((event) => event.messageId);
        if (next === undefined) {
          return { reservations: [{ topic: "meeting.soon", ids: over }], data: null, ui: { title: "Let old meetings go" } };
        }
        const { title, start } = next.payload;
        return {
          reservations: [{ topic: next.topic, ids: [next.messageId] }],
          data: { title, start, id: next.id },
          ui: { title: `Make a page for "${title}"` },
        };
      },
      async mutate(ctx, prepared) {
        if (prepared.data === null) return;
        const { title, start } = prepared.data;
        await ctx.notion.createPage({ databaseId: "MEET", properties: { title, start } });
      },
      async next(ctx, prepared, result) {
        if (result.status === "applied") {
          const made = result.result;
          await ctx.publish("page.made", {
            messageId: `page:${prepared.data.id}`,
            title: `Page for "${prepared.data.title}"`,
            payload: { page: made?.id ?? null },
          });
        }
      },
    }),
  },
});
