// Orders to mail: each new row of Airtable goes to the store room by mail, then is done.

const TABLE = "Orders";
const STORE_ROOM = "store@example.com";

export default Keep.workflow({
  name: "orders-to-mail",

  topics: ["order.new", "order.told"],

  producers: {
    look: {
      schedule: { interval: "10m" },
      publishes: ["order.new"],
      handler: async (ctx, state) => {
        const rows = await ctx.airtable.rows({ table: TABLE, after: state?.cursor });
        for (const row of rows) {
          const { Name: name, Count: count } = row.values;
          await ctx.publish("order.new", {
            messageId: row.id,
            title: `Order ${row.id}: ${count} × ${name}`,
            payload: { id: row.id, name, count },
          });
        }
        return { cursor: rows.lastCursor };
      },
    },
  },

  consumers: {
    tell: Keep.consumer({
      subscribe: ["order.new"],
      publishes: ["order.told"],

      async prepare(ctx) {
        const [order] = await ctx.peek("order.new", { limit: 1 });
        if (!order) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "order.new", ids: [order.messageId] }],
          data: order.payload,
          ui: { title: `Mail ${order.title}` },
        };
      },

      async mutate(ctx, prepared) {
        const { id, name, count } = prepared.data;
        await ctx.gmail.send({
          to: [STORE_ROOM],
          subject: `Order ${id}`,
          text: `Please pack ${count} × ${name}.`,
        });
      },

      async next(ctx, prepared, result) {
        if (result.status !== "applied") return;
        const { id } = prepared.data;
        await ctx.publish("order.told", {
          messageId: id,
          title: `Order ${id} was mailed`,
          payload: prepared.data,
        });
      },
    }),

    mark: Keep.consumer({
      subscribe: ["order.told"],

      async prepare(ctx) {
        const [order] = await ctx.peek("order.told", { limit: 1 });
        if (!order) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "order.told", ids: [order.messageId] }],
          data: order.payload,
          ui: { title: `Mark order ${order.messageId} as done` },
        };
      },

      async mutate(ctx, prepared) {
        await ctx.airtable.upsert({
          table: TABLE,
          mergeOn: "Name",
          values: { Name: prepared.data.name, Done: true },
        });
      },
    }),
  },
});
