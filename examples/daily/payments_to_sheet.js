// Payments to sheet: each payment that Stripe took becomes a row of a Google sheet.

export default Keep.workflow({
  name: "payments-to-sheet",

  topics: ["payment.taken"],

  producers: {
    look: {
      schedule: { interval: "15m" },
      publishes: ["payment.taken"],
      handler: async (ctx, state) => {
        const charges = await ctx.stripe.list({ kind: "charges", after: state?.cursor });
        for (const charge of charges) {
          if (charge.status !== "succeeded") continue;
          const amount = `${(charge.amount / 100).toFixed(2)} ${charge.currency.toUpperCase()}`;
          await ctx.publish("payment.taken", {
            messageId: charge.id,
            title: `Payment ${charge.id} of ${amount} by ${charge.email}`,
            payload: { id: charge.id, email: charge.email, amount },
          });
        }
        return { cursor: charges.lastCursor };
      },
    },
  },

  consumers: {
    book: Keep.consumer({
      subscribe: ["payment.taken"],

      async prepare(ctx) {
        const [payment] = await ctx.peek("payment.taken", { limit: 1 });
        if (!payment) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "payment.taken", ids: [payment.messageId] }],
          data: payment.payload,
          ui: { title: `Book ${payment.title}` },
        };
      },

      async mutate(ctx, prepared) {
        const { id, email, amount } = prepared.data;
        await ctx.sheets.append({ row: { payment: id, customer: email, amount } });
      },
    }),
  },
});
