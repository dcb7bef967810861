// Correlation: an order is shipped when both it and its payment are there, whichever came first.

const LOOK = { limit: 1000 };

export default Keep.workflow({
  name: "correlation",

  topics: {
    "order.placed": { ingress: true },
    "payment.received": { ingress: true },
    "order.ready": {},
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
        await ctx.chat.postMessage({ channel: "shipping", text: `Ship order ${order}: ${item}` });
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
