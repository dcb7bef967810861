// finds nothing

const parse = (text) => {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
};

export default Keep.workflow({
  name: "webhooks",
  topics: { "hook.received": { ingress: true } },
  consumers: {
    file: Keep.consumer({
      subscribe: ["hook.received"],
      async prepare(ctx) {
        const [hook] = await ctx.peek("hook.received", { limit: 1 });
        if (!hook) return { reservations: [], data: {} };
        const known = await ctx.getByIds("hook.received", [hook.messageId]);
        const body = parse(known[0].payload.body);
        const prepared = {
          reservations: [{ topic: "hook.received", ids: [hook.messageId] }],
          data: { body },
        };
        prepared.ui = { title: `File hook ${hook.messageId}` };
        return prepared;
      },
      async mutate(ctx, prepared) {
        const notion = ctx.notion;
        await notion.createPage({ databaseId: "hooks", properties: prepared.data.body });
      },
    }),
  },
});
