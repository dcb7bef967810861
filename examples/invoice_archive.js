// Invoice archive: a PDF that comes by mail is put into a bucket, and its total into a table.

function findTotal(text) {
  for (const line of text.split("\n")) {
    if (line.includes("Total")) return line.split("Total")[1].replace(/^[ :]+|[ :]+$/g, "");
  }
  return "?";
}

export default Keep.workflow({
  name: "invoice-archive",

  topics: ["invoice.received", "invoice.archived"],

  producers: {
    poll: {
      schedule: { interval: "5m" },
      publishes: ["invoice.received"],
      handler: async (ctx, state) => {
        const mails = await ctx.mail.search({ query: "subject:invoice", after: state?.cursor });
        for (const mail of mails) {
          // The bytes stay in the host: `file` is a handle, with name, type, size and digest.
          const file = await ctx.mail.attachment({ id: mail.id });
          if (file && file.type === "application/pdf") {
            await ctx.publish("invoice.received", {
              messageId: mail.id,
              title: `Invoice ${file.name} from ${mail.from}`,
              payload: { id: mail.id, from: mail.from, file },
            });
          }
        }
        return { cursor: mails.lastCursor };
      },
    },
  },

  consumers: {
    archive: Keep.consumer({
      subscribe: ["invoice.received"],
      publishes: ["invoice.archived"],

      async prepare(ctx) {
        const [invoice] = await ctx.peek("invoice.received", { limit: 1 });
        if (!invoice) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "invoice.received", ids: [invoice.messageId] }],
          data: invoice.payload,
          ui: { title: `Archive ${invoice.payload.file.name}` },
        };
      },

      async mutate(ctx, prepared) {
        const { file } = prepared.data;
        await ctx.archive.put({ key: `${file.blob.slice(0, 12)}-${file.name}`, file });
      },

      async next(ctx, prepared, mutationResult) {
        if (mutationResult.status !== "applied") return;
        await ctx.publish("invoice.archived", {
          messageId: prepared.data.id,
          title: `Archived ${prepared.data.file.name}`,
          payload: { ...prepared.data, key: mutationResult.result.key },
        });
      },
    }),

    book: Keep.consumer({
      subscribe: ["invoice.archived"],

      async prepare(ctx) {
        const [event] = await ctx.peek("invoice.archived", { limit: 1 });
        if (!event) return { reservations: [], data: {} };
        const invoice = event.payload;
        const words = await ctx.documents.pdfText({ file: invoice.file });
        const row = { from: invoice.from, key: invoice.key, total: findTotal(words.text) };
        return {
          reservations: [{ topic: "invoice.archived", ids: [event.messageId] }],
          data: { row },
          ui: { title: `Book ${row.total} of ${row.from}` },
        };
      },

      async mutate(ctx, prepared) {
        await ctx.books.insert({ table: "invoices", row: prepared.data.row });
      },
    }),
  },
});
