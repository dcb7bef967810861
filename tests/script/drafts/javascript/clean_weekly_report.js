// finds nothing

const REPORT_SIZE = 50;

const dayOf = (moment) => moment.toISOString().slice(0, 10);

export default Keep.workflow({
  name: "weekly report",
  topics: ["report.due", "report.sent"],
  producers: {
    monday: {
      schedule: { cron: "0 8 * * 1", onDeploy: false },
      handler: async (ctx) => {
        const day = dayOf(new Date());
        await ctx.publish("report.due", {
          messageId: `report:${day}`,
          title: `Report of the week of ${day}`,
          payload: { day },
        });
      },
    },
  },
  consumers: {
    send: Keep.consumer({
      subscribe: ["report.due"],
      async prepare(ctx) {
        const pending = await ctx.peek("report.due");
        const due = pending.at(-1);
        if (!due) return { reservations: [], data: {} };
        const lines = [];
        let after;
        while (true) {
          const mails = await ctx.gmail.search({ query: "label:report", after });
          for (const mail of mails) lines.push(`${mail.from}: ${mail.subject}`);
          if (mails.length === 0 || lines.length >= REPORT_SIZE) break;
          after = mails.lastCursor;
        }
        return {
          reservations: [{ topic: "report.due", ids: pending.map(({ id }) => id) }],
          data: { day: due.payload.day, body: lines.slice(0, REPORT_SIZE).join("\n") },
          ui: { title: `Send the report of ${due.payload.day}` },
        };
      },
      async mutate(ctx, prepared) {
        const { day, body } = prepared.data;
        if (!body) return;
        await ctx.gmail.send({ to: "team@acme.com", subject: `Report ${day}`, body });
      },
      async next(ctx, prepared, { status }) {
        if (status === "applied")
          await ctx.publish("report.sent", {
            messageId: `sent:${prepared.data.day}`,
            title: `Report of ${prepared.data.day} was sent`,
            payload: { day: prepared.data.day },
          });
      },
    }),
  },
});
