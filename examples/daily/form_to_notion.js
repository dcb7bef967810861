// Form to Notion: each form that a web page sends becomes a page of a Notion database.

const DATABASE = "d0000000-0000-4000-8000-000000000001";

export default Keep.workflow({
  name: "form-to-notion",

  topics: { "form.sent": { ingress: true } },

  consumers: {
    keep: Keep.consumer({
      subscribe: ["form.sent"],

      async prepare(ctx) {
        const [form] = await ctx.peek("form.sent", { limit: 1 });
        if (!form) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "form.sent", ids: [form.messageId] }],
          data: { name: form.payload.name, wish: form.payload.wish },
          ui: { title: `Keep ${form.title}` },
        };
      },

      async mutate(ctx, prepared) {
        const { name, wish } = prepared.data;
        await ctx.notion.create({
          database: DATABASE,
          values: { Name: name, Note: wish, Status: "New" },
        });
      },
    }),
  },
});
