// finds dynamic-name 16

export default Keep.workflow({
  name: "router",
  topics: ["inbox", "inbox.sales", "inbox.support"],
  consumers: {
    route: Keep.consumer({
      subscribe: ["inbox"],
      async prepare(ctx) {
        const [mail] = await ctx.peek("inbox", { limit: 1 });
        if (!mail) return { reservations: [], data: {} };
        return { reservations: [{ topic: "inbox", ids: [mail.id] }], data: mail.payload };
      },
      async next(ctx, { data }) {
        const team = data.subject.includes("invoice") ? "sales" : "support";
        await ctx.publish(`inbox.${team}`, {
          messageId: data.id,
          title: `Mail for ${team}: "${data.subject}"`,
          payload: data,
        });
      },
    }),
  },
});
