// Mail to table: every new mail becomes one row of a table, once.

const TABLE = "S1";

function describe(mail) {
  return `Mail from ${mail.from}: "${mail.subject}"`;
}

export default Keep.workflow({
  name: "mail-to-table",

  topics: ["mail.received", "row.added"],

  producers: {
    poll: {
      schedule: { interval: "5m" },
      publishes: ["mail.received"],
      handler: async (ctx, state) => {
        const cursor = state?.cursor;
        // Only the first look asks for an age: later ones begin where the one before ended.
        const mails = await ctx.gmail.search({ query: cursor ? "" : "newer_than:1d", after: cursor });
        for (const mail of mails) {
          await ctx.publish("mail.received", {
            messageId: mail.id,
            title: describe(mail),
            payload: { id: mail.id, from: mail.from, subject: mail.subject },
          });
        }
        return { cursor: mails.lastCursor };
      },
    },
  },

  consumers: {
    file: Keep.consumer({
      subscribe: ["mail.received"],
      publishes: ["row.added"],

      async prepare(ctx) {
        const [mail] = await ctx.peek("mail.received", { limit: 1 });
        if (!mail) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "mail.received", ids: [mail.messageId] }],
          data: mail.payload,
          ui: { title: `Add a row for ${mail.payload.from}` },
        };
      },

      async mutate(ctx, prepared) {
        const { from, subject } = prepared.data;
        await ctx.sheets.appendRow({ spreadsheetId: TABLE, values: [from, subject] });
      },

      async next(ctx, prepared, mutationResult) {
        if (mutationResult.status !== "applied") return;
        await ctx.publish("row.added", {
          messageId: `row:${prepared.data.id}`,
          title: `Row for ${describe(prepared.data)}`,
          payload: { row: mutationResult.result },
        });
      },
    }),
  },
});
