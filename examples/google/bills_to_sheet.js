// Bills to sheet: each mail about an invoice becomes a row of a Google sheet, then is archived.

export default Keep.workflow({
  name: "bills-to-sheet",

  topics: ["bill.received", "bill.booked"],

  producers: {
    poll: {
      schedule: { interval: "5m" },
      publishes: ["bill.received"],
      handler: async (ctx, state) => {
        const mails = await ctx.gmail.search({ query: "subject:invoice", after: state?.cursor });
        for (const mail of mails) {
          await ctx.publish("bill.received", {
            messageId: mail.id,
            title: mail.subject || "(no subject)",
            payload: { id: mail.id, from: mail.from, subject: mail.subject },
          });
        }
        return { cursor: mails.lastCursor };
      },
    },
  },

  consumers: {
    book: Keep.consumer({
      subscribe: ["bill.received"],
      publishes: ["bill.booked"],

      async prepare(ctx) {
        const [bill] = await ctx.peek("bill.received", { limit: 1 });
        if (!bill) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "bill.received", ids: [bill.messageId] }],
          data: bill.payload,
          ui: { title: `Book ${bill.title}` },
        };
      },

      async mutate(ctx, prepared) {
        const bill = prepared.data;
        await ctx.sheets.append({ row: { customer: bill.from, subject: bill.subject } });
      },

      async next(ctx, prepared, mutationResult) {
        if (mutationResult.status !== "applied") return;
        await ctx.publish("bill.booked", {
          messageId: prepared.data.id,
          title: `Booked ${prepared.data.subject}`,
          payload: prepared.data,
        });
      },
    }),

    file: Keep.consumer({
      subscribe: ["bill.booked"],

      async prepare(ctx) {
        const [bill] = await ctx.peek("bill.booked", { limit: 1 });
        if (!bill) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "bill.booked", ids: [bill.messageId] }],
          data: bill.payload,
          ui: { title: `Archive ${bill.payload.subject}` },
        };
      },

      async mutate(ctx, prepared) {
        await ctx.gmail.archive({ id: prepared.data.id });
      },
    }),
  },
});
