// finds several-mutations 19

export default Keep.workflow({
  name: "orders",
  topics: ["order.placed"],
  consumers: {
    record: Keep.consumer({
      subscribe: ["order.placed"],
      async prepare(ctx) {
        const orders = await ctx.peek("order.placed", { limit: 50 });
        return {
          reservations: [{ topic: "order.placed", ids: orders.map((o) => o.id) }],
          data: { orders: orders.map((o) => o.payload) },
          ui: { title: `Record ${orders.length} orders` },
        };
      },
      async mutate(ctx, prepared) {
        for (const order of prepared.data.orders) {
          await ctx.sheets.appendRow({ spreadsheetId: "orders", values: [order.id, order.total] });
        }
      },
    }),
  },
});
