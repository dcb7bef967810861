// finds nothing

const nothing = { reservations: [], data: {} };

export default Keep.workflow({
  name: "pairs",
  topics: { "order.placed": { ingress: true }, "order.paid": { ingress: true } },
  consumers: {
    ship: Keep.consumer({
      subscribe: ["order.placed", "order.paid"],
      async prepare(ctx) {
        const [placed, paid] = await Promise.all([ctx.peek("order.placed"), ctx.peek("order.paid")]);
        search: for (const order of placed) {
          for (const payment of paid) {
            if (payment.payload.order !== order.payload.id) continue;
            if (payment.payload.amount < order.payload.amount) continue search;
            return {
              reservations: [
                { topic: "order.placed", ids: [order.id] },
                { topic: "order.paid", ids: [payment.id] },
              ],
              data: { order: order.payload, payment: payment.payload },
              ui: { title: `Ship order ${order.payload.id}` },
            };
          }
        }
        return nothing;
      },
      async mutate(ctx, { data }) {
        const lines = [`Order ${data.order.id}`, `Paid ${data.payment.amount}`];
        await ctx.slack.postMessage({ channel: "#ship", text: lines.join("\n") });
      },
    }),
  },
});
