// First in, first out: tickets are filed one by one, in the order in which they came.

export default Keep.workflow({
  name: "fifo",

  topics: { "ticket.opened": { ingress: true }, "ticket.filed": {} },

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
        await ctx.sheets.appendRow({ spreadsheetId: "tickets", values: [id, text] });
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
