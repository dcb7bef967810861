// finds code-after-mutation 25

const CHANNEL = "#support";

export default Duly.workflow({
  name: "tickets to slack",
  topics: { "ticket.opened": { ingress: true } },
  consumers: {
    announce: {
      subscribe: ["ticket.opened"],
      prepare: async (ctx, state) => {
        const pending = await ctx.peek("ticket.opened");
        if (pending.length === 0) {
          return { reservations: [], data: {} };
        }
        const ticket = pending[0];
        return {
          reservations: [{ topic: ticket.topic, ids: [ticket.id] }],
          data: { subject: ticket.payload.subject },
          ui: { title: `Announce ticket ${ticket.id} in ${CHANNEL}` },
        };
      },
      mutate: async (ctx, { data }) => {
        const message = await ctx.slack.postMessage({ channel: CHANNEL, text: data.subject });
        return { ts: message.ts };
      },
    },
  },
});
