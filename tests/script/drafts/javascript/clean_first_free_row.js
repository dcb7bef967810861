// finds nothing

export default Keep.workflow({
  name: "first free row",
  topics: ["signup"],
  producers: {
    async read(ctx, state) {
      const messages = await ctx.slack.listMessages({ channel: "#signup", after: state?.last });
      let last = state?.last;
      for (const message of messages) {
        last = message.id;
        if (!message.text.includes("@")) continue;
        await ctx.publish("signup", {
          messageId: message.id,
          title: `Signup of ${message.text.trim()}`,
          payload: { email: message.text.trim() },
        });
      }
      return { last };
    },
  },
  consumers: {
    store: Keep.consumer({
      subscribe: ["signup"],
      async prepare(ctx) {
        const pending = await ctx.peek("signup", { limit: 1 });
        if (pending.length === 0) return { reservations: [], data: {} };
        const rows = await ctx.sheets.search({ spreadsheetId: "SIGN", query: "free" });
        let free;
        for (const row of rows) {
          if (!row.values?.length) {
            free = row.id;
            break;
          }
        }
        const email = pending[0].payload.email;
        return {
          reservations: [{ topic: "signup", ids: pending.map((event) => event.messageId) }],
          data: { email, free: free ?? null },
          ui: { title: `Put ${email} into ${free ? `row ${free}` : "a new row"}` },
        };
      },
      async mutate(ctx, prepared) {
        const { email, free } = prepared.data;
        return free
          ? ctx.sheets.updateRow({ spreadsheetId: "SIGN", rowId: free, values: [email] })
          : ctx.sheets.appendRow({ spreadsheetId: "SIGN", values: [email] });
      },
      async next(ctx, prepared, result, state) {
        return { count: (state?.count ?? 0) + (result.status === "applied" ? 1 : 0) };
      },
    }),
  },
});
