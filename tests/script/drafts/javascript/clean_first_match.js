// finds nothing

export default Keep.workflow({
  name: "first free slot",
  topics: ["meeting.wanted"],
  consumers: {
    book: Keep.consumer({
      subscribe: ["meeting.wanted"],
      async prepare(ctx) {
        const [wanted] = await ctx.peek("meeting.wanted", { limit: 1 });
        if (!wanted) return { reservations: [], data: {} };
        const busy = await ctx.calendar.listEvents({ after: wanted.payload.from });
        const slots = wanted.payload.slots.filter((slot) => !busy.some((b) => b.start === slot));
        return {
          reservations: [{ topic: "meeting.wanted", ids: [wanted.messageId] }],
          data: { slots, title: wanted.payload.title },
          ui: { title: `Book "${wanted.payload.title}"` },
        };
      },
      async mutate(ctx, { data }) {
        for (const slot of data.slots) {
          if (slot.endsWith("Z")) {
            await ctx.calendar.createEvent({ title: data.title, start: slot, end: slot });
            break;
          }
        }
      },
    }),
  },
});
