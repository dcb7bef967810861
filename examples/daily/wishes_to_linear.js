// Wishes to Linear: each wish that a form of a web page sends becomes an issue of a team.

const TEAM = "tea";

export default Keep.workflow({
  name: "wishes-to-linear",

  topics: { "form.sent": { ingress: true } },

  consumers: {
    openIssue: Keep.consumer({
      subscribe: ["form.sent"],

      async prepare(ctx) {
        const [form] = await ctx.peek("form.sent", { limit: 1 });
        if (!form) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "form.sent", ids: [form.messageId] }],
          data: form.payload,
          ui: { title: `Open an issue for ${form.title}` },
        };
      },

      async mutate(ctx, prepared) {
        const { name, wish } = prepared.data;
        await ctx.linear.createIssue({
          team: TEAM,
          title: wish.slice(0, 200),
          description: `Wished by ${name}`,
        });
      },
    }),
  },
});
