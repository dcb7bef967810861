// Correlation: an order is shipped when both it and its payment are there, whichever came first.
//
// Every file in orders/ is an order with its item, every file in payments/ names the order it is
// for; every order that is paid is a letter in outbox/.

const LOOK = { limit: 1000 };

export default Keep.workflow({
  name: "correlation",

  topics: {
    "order.placed": { ingress: true },
    "payment.received": { ingress: true },
    "order.ready": {},
  },

  producers: {
    orders: {
      schedule: { interval: "1m" },
      publishes: ["order.placed"],
      handler: async (ctx, state) => {
        const files = await ctx.orders.search({ pattern: "*.txt", after: state?.cursor });
        for (const each of files) {
          const file = await ctx.orders.read({ path: each.path });
          const name = each.path.replace(/\.txt$/, "");
          await ctx.publish("order.placed", {
            messageId: name,
            title: `Order ${name}`,
            payload: { item: file?.text?.trim() ?? "" },
          });
        }
        return { cursor: files.lastCursor };
      },
    },

    payments: {
      schedule: { interval: "1m" },
      publishes: ["payment.received"],
      handler: async (ctx, state) => {
        const files = await ctx.payments.search({ pattern: "*.txt", after: state?.cursor });
        for (const each of files) {
          const file = await ctx.payments.read({ path: each.path });
          const name = each.path.replace(/\.txt$/, "");
          await ctx.publish("payment.received", {
            messageId: name,
            title: `Payment ${name}`,
            payload: { order: file?.text?.trim() ?? "" },
          });
        }
        return { cursor: files.lastCursor };
      },
    },
  },

  consumers: {
    match: Keep.consumer({
      subscribe: ["order.placed", "payment.received"],
      publishes: ["order.ready"],

      async prepare(ctx) {
        const orders = await ctx.peek("order.placed", LOOK);
        const payments = await ctx.peek("payment.received", LOOK);
        // The payment's payload says which order it is for; a message id only names the payment.
        const paid = new Map(payments.map((payment) => [payment.payload.order, payment]));
        const order = orders.find((each) => paid.has(each.messageId));
        if (!order) return { reservations: [], data: {} };
        const payment = paid.get(order.messageId);
        return {
          reservations: [
            { topic: "order.placed", ids: [order.messageId] },
            { topic: "payment.received", ids: [payment.messageId] },
          ],
          data: { order: order.messageId, item: order.payload.item },
          ui: { title: `Ship order ${order.messageId}` },
        };
      },

      async mutate(ctx, prepared) {
        const { order, item } = prepared.data;
        await ctx.outbox.write({ path: `${order}.txt`, text: `Ship order ${order}: ${item}\n` });
      },

      async next(ctx, prepared, mutationResult) {
        if (mutationResult.status !== "applied") return;
        await ctx.publish("order.ready", {
          messageId: `ready:${prepared.data.order}`,
          title: `Order ${prepared.data.order} is paid and on its way`,
          payload: { item: prepared.data.item },
        });
      },
    }),
  },
});
