// First in, first out: tickets are filed one by one, in the order in which they came.
//
// Every file in inbox/ is a ticket; every ticket becomes a row of the table `tickets`.

export default Keep.workflow({
  name: "fifo",

  topics: { "ticket.opened": { ingress: true }, "ticket.filed": {} },

  producers: {
    look: {
      schedule: { interval: "1m" },
      publishes: ["ticket.opened"],
      handler: async (ctx, state) => {
        const files = await ctx.inbox.search({ pattern: "*.txt", after: state?.cursor });
        for (const file of files) {
          const name = file.path.replace(/\.txt$/, "");
          const ticket = await ctx.inbox.read({ path: file.path });
          await ctx.publish("ticket.opened", {
            messageId: name,
            title: `Ticket ${name}`,
            payload: { text: ticket?.text?.trim() || "no text" },
          });
        }
        return { cursor: files.lastCursor };
      },
    },
  },

  consumers: {
    file: Keep.consumer({
      subscribe: ["ticket.opened"],
      publishes: ["ticket.filed"],

      async prepare(ctx) {
        const [ticket] = await ctx.peek("ticket.opened", { limit: 1 });
        if (!ticket) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "ticket.opened", ids: [ticket.messageId] }],
          data: { id: ticket.messageId, text: ticket.payload.text },
          ui: { title: `File ticket ${ticket.messageId}` },
        };
      },

      async mutate(ctx, prepared) {
        const { id, text } = prepared.data;
        await ctx.table.insert({ table: "tickets", row: { ticket: id, text } });
      },

      async next(ctx, prepared, mutationResult) {
        if (mutationResult.status !== "applied") return;
        await ctx.publish("ticket.filed", {
          messageId: `filed:${prepared.data.id}`,
          title: `Ticket ${prepared.data.id} is filed`,
          payload: { row: mutationResult.result },
        });
      },
    }),
  },
});
