// finds nothing

const topics = ["mail", "mail.classified", "mail.filed"];

const classify = Keep.consumer({
  subscribe: ["mail"],
  publishes: ["mail.classified"],
  async prepare(ctx) {
    const events = await ctx.peek("mail", { limit: 20 });
    return {
      reservations: [{ topic: "mail", ids: events.map((e) => e.messageId) }],
      data: { mails: events.map((e) => ({ ...e.payload, id: e.messageId })) },
    };
  },
  async next(ctx, prepared) {
    for (const mail of prepared.data.mails ?? []) {
      const label = /invoice/i.test(mail.subject) ? "finance" : "other";
      await ctx.publish("mail.classified", {
        messageId: mail.id,
        title: `${label}: "${mail.subject}" from ${mail.from}`,
        payload: { ...mail, label },
      });
    }
  },
});

const file = Keep.consumer({
  subscribe: ["mail.classified"],
  async prepare(ctx) {
    const [event] = await ctx.peek("mail.classified", { limit: 1 });
    if (!event) return { reservations: [], data: {} };
    const title = `File "${event.payload.subject}" under ${event.payload.label}`;
    return {
      reservations: [{ topic: "mail.classified", ids: [event.messageId] }],
      data: event.payload,
      ui: { title },
    };
  },
  async mutate(ctx, { data }) {
    const values = [data.from, data.subject];
    await ctx.sheets.appendRow({ spreadsheetId: data.label, values });
  },
  async next(ctx, { data }, { status, result }) {
    if (status !== "applied") return;
    await ctx.publish("mail.filed", { messageId: data.id, title: `Filed "${data.subject}"`, payload: result });
  },
});

export default Duly.workflow({ name: "mail-filing", topics, consumers: { classify, file } });
