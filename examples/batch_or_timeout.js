// Batch or timeout: parcels leave ten at a time, or after an hour however few there are.
//
// Every file in inbox/ is a parcel, named after it; every van is a row of the table `vans`.

const FULL = 10;
const PATIENCE_MS = 60 * 60 * 1000;

export default Keep.workflow({
  name: "batch-or-timeout",

  topics: { "parcel.packed": { ingress: true }, "van.sent": {} },

  producers: {
    look: {
      schedule: { interval: "1m" },
      publishes: ["parcel.packed"],
      handler: async (ctx, state) => {
        const files = await ctx.inbox.search({ pattern: "*.txt", after: state?.cursor });
        for (const file of files) {
          const name = file.path.replace(/\.txt$/, "");
          await ctx.publish("parcel.packed", { messageId: name, title: `Parcel ${name}` });
        }
        return { cursor: files.lastCursor };
      },
    },
  },

  consumers: {
    load: Keep.consumer({
      subscribe: ["parcel.packed"],
      publishes: ["van.sent"],

      async prepare(ctx, state) {
        const parcels = await ctx.peek("parcel.packed", { limit: FULL });
        if (parcels.length === 0) return { reservations: [], data: { leavesAt: null } };
        const leavesAt = state?.leavesAt ?? Date.now() + PATIENCE_MS;
        if (parcels.length < FULL && Date.now() < leavesAt) {
          return { reservations: [], data: { leavesAt }, wakeAt: new Date(leavesAt).toISOString() };
        }
        const ids = parcels.map((parcel) => parcel.messageId);
        return {
          reservations: [{ topic: "parcel.packed", ids }],
          data: { leavesAt: null, parcels: ids },
          ui: { title: `Send a van with ${ids.length} parcels, from ${ids[0]} on` },
        };
      },

      async mutate(ctx, prepared) {
        const { parcels } = prepared.data;
        const row = { first: parcels[0], parcels: parcels.join(", ") };
        await ctx.table.insert({ table: "vans", row });
      },

      async next(ctx, prepared, mutationResult) {
        if (mutationResult.status === "applied") {
          const [first] = prepared.data.parcels;
          await ctx.publish("van.sent", {
            messageId: `van:${first}`,
            title: `Van with ${prepared.data.parcels.length} parcels, from ${first} on`,
            payload: { parcels: prepared.data.parcels },
          });
        }
        return { leavesAt: prepared.data.leavesAt };
      },
    }),
  },
});
