// Mail triage: an urgent mail is told in Slack; every other mail gets the label Later.

const URGENT = ["urgent", "outage", "overdue"];
const CHANNEL = "C024BE91L";

export default Keep.workflow({
  name: "mail-triage",

  topics: ["mail.urgent", "mail.other"],

  producers: {
    look: {
      schedule: { interval: "5m" },
      publishes: ["mail.urgent", "mail.other"],
      handler: async (ctx, state) => {
        const mails = await ctx.gmail.search({ after: state?.cursor });
        for (const mail of mails) {
          const subject = mail.subject.toLowerCase();
          const title = `Email from ${mail.from}: "${mail.subject}"`;
          const payload = { id: mail.id, from: mail.from, subject: mail.subject };
          if (URGENT.some((word) => subject.includes(word))) {
            await ctx.publish("mail.urgent", { messageId: mail.id, title, payload });
          } else {
            await ctx.publish("mail.other", { messageId: mail.id, title, payload });
          }
        }
        return { cursor: mails.lastCursor };
      },
    },
  },

  consumers: {
    tell: Keep.consumer({
      subscribe: ["mail.urgent"],

      async prepare(ctx) {
        const [mail] = await ctx.peek("mail.urgent", { limit: 1 });
        if (!mail) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "mail.urgent", ids: [mail.messageId] }],
          data: mail.payload,
          ui: { title: `Tell Slack: ${mail.title}` },
        };
      },

      async mutate(ctx, prepared) {
        const mail = prepared.data;
        await ctx.slack.post({ channel: CHANNEL, text: `${mail.from} writes: ${mail.subject}` });
      },
    }),

    putAside: Keep.consumer({
      subscribe: ["mail.other"],

      async prepare(ctx) {
        const [mail] = await ctx.peek("mail.other", { limit: 1 });
        if (!mail) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "mail.other", ids: [mail.messageId] }],
          data: mail.payload,
          ui: { title: `Put aside: ${mail.title}` },
        };
      },

      async mutate(ctx, prepared) {
        await ctx.gmail.label({ id: prepared.data.id, label: "Later" });
      },
    }),
  },
});
