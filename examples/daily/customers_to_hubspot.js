// Customers to HubSpot: each new customer of Stripe becomes a contact.

export default Keep.workflow({
  name: "customers-to-hubspot",

  topics: ["customer.made"],

  producers: {
    look: {
      schedule: { interval: "1h" },
      publishes: ["customer.made"],
      handler: async (ctx, state) => {
        const customers = await ctx.stripe.list({ kind: "customers", after: state?.cursor });
        for (const customer of customers) {
          await ctx.publish("customer.made", {
            messageId: customer.id,
            title: `Customer ${customer.id}: ${customer.email}`,
            payload: { email: customer.email, name: customer.data.name ?? "" },
          });
        }
        return { cursor: customers.lastCursor };
      },
    },
  },

  consumers: {
    add: Keep.consumer({
      subscribe: ["customer.made"],

      async prepare(ctx) {
        const [customer] = await ctx.peek("customer.made", { limit: 1 });
        if (!customer) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "customer.made", ids: [customer.messageId] }],
          data: customer.payload,
          ui: { title: `Add ${customer.title}` },
        };
      },

      async mutate(ctx, prepared) {
        const { email, name } = prepared.data;
        await ctx.hubspot.createContact({ email, lastname: name });
      },
    }),
  },
});
