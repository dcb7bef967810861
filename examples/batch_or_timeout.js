// Batch or timeout: parcels leave ten at a time, or after an hour however few there are.

const FULL = 10;
const PATIENCE_MS = 60 * 60 * 1000;

export default Keep.workflow({
  name: "batch-or-timeout",

  topics: { "parcel.packed": { ingress: true }, "van.sent": {} },

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
        await ctx.sheets.appendRow({ spreadsheetId: "vans", values: prepared.data.parcels });
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
