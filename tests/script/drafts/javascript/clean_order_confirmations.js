// finds nothing

const SUBJECT = /^order\s+#(\d+)/i;
const confirmation = (number) => `Thank you, we have your order #${number}.`;

function orderNumber(subject) {
  const match = SUBJECT.exec(subject ?? "");
  return match ? match[1] : null;
}

export default Keep.workflow({
  name: "order confirmations",
  topics: ["order.mail", "order.confirmed"],
  producers: {
    poll: {
      schedule: { interval: "2m" },
      handler: async (ctx, state) => {
        const mails = await ctx.gmail.search({ query: "subject:order", after: state?.cursor ?? null });
        for (const { id, from, subject } of mails) {
          const number = orderNumber(subject);
          if (number === null) continue;
          await ctx.publish("order.mail", {
            messageId: id,
            title: `Order #${number} from ${from}`,
            payload: { id, from, number },
          });
        }
        return mails.lastCursor ? { cursor: mails.lastCursor } : state;
      },
    },
  },
  consumers: {
    confirm: Keep.consumer({
      subscribe: ["order.mail"],
      publishes: ["order.confirmed"],
      async prepare(ctx) {
        const [order] = await ctx.peek("order.mail", { limit: 1 });
        if (!order) return { reservations: [], data: {} };
        const { from, number } = order.payload;
        return {
          reservations: [{ topic: "order.mail", ids: [order.messageId] }],
          data: { from, number, body: confirmation(number) },
          ui: { title: `Confirm order #${number} to ${from}` },
        };
      },
      async mutate(ctx, { data: { from, number, body } }) {
        await ctx.gmail.send({ to: from, subject: `Re: order #${number}`, body });
      },
      async next(ctx, { data }, { status }) {
        if (status !== "applied") return;
        await ctx.publish("order.confirmed", {
          messageId: `confirmed:${data.number}`,
          title: `Confirmed order #${data.number} to ${data.from}`,
          payload: { number: data.number },
        });
      },
    }),
  },
});
