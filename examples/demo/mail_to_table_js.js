// Mail to table: every mail in the mailbox becomes one row of the table `mails_js`, once.

const TABLE = "mails_js";

function describe(mail) {
  return `Mail from ${mail.from}: "${mail.subject || "no subject"}"`;
}

export default Keep.workflow({
  name: "mail-to-table-js",

  topics: ["mail.received", "row.added"],

  producers: {
    poll: {
      schedule: { interval: "1s" },
      publishes: ["mail.received"],
      handler: async (ctx, state) => {
        const mails = await ctx.mailbox.search({ after: state?.cursor });
        for (const mail of mails) {
          await ctx.publish("mail.received", {
            messageId: mail.id,
            title: describe(mail),
            payload: { id: mail.id, file: mail.file, from: mail.from, subject: mail.subject },
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
          ui: { title: `Add a row for ${mail.payload.file}` },
        };
      },

      async mutate(ctx, prepared) {
        const { file, from, subject } = prepared.data;
        await ctx.table.insert({ table: TABLE, row: { mail: file, from, subject } });
      },

      async next(ctx, prepared, mutationResult) {
        if (mutationResult.status !== "applied") return;
        await ctx.publish("row.added", {
          messageId: prepared.data.id,
          title: `Row ${mutationResult.result.row} of ${TABLE}`,
          payload: mutationResult.result,
        });
      },
    }),
  },
});
