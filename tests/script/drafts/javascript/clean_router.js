// finds nothing

const TOPIC = "mail";
const RULES = [
  { match: (mail) => mail.subject.startsWith("Invoice"), kind: "invoice" },
  { match: (mail) => /urgent/i.test(mail.subject), kind: "urgent" },
];

const kindOf = (mail) => RULES.find((rule) => rule.match(mail))?.kind ?? "other";

const handlers = {
  archive: (ctx, mail) => ctx.gmail.archive({ id: mail.id }),
  shout: (ctx, mail) => ctx.slack.postMessage({ channel: "#urgent", text: mail.subject }),
};

const router = Keep.consumer({
  subscribe: [TOPIC],
  async prepare(ctx, state) {
    const events = await ctx.peek(TOPIC, { limit: 1 });
    const event = events[0];
    if (event == null) {
      return { reservations: [], data: {} };
    }
    const kind = kindOf(event.payload);
    console.log("routing", event.messageId, kind);
    return {
      reservations: [{ topic: TOPIC, ids: [event.messageId] }],
      data: { kind, mail: event.payload },
      ui: { title: `${kind}: ${event.payload.subject}` },
    };
  },
  async mutate(ctx, prepared) {
    const { kind, mail } = prepared.data;
    if (kind === "urgent") {
      await handlers.shout(ctx, mail);
    } else if (kind === "other") {
      await handlers.archive(ctx, mail);
    } else {
      console.log("left alone", mail.id);
    }
  },
});

async function poll(ctx, state) {
  const mails = await ctx.gmail.search({ after: state?.cursor });
  await Promise.all(
    mails.map((mail) =>
      ctx.publish(TOPIC, { messageId: mail.id, title: `Mail: ${mail.subject}`, payload: mail }),
    ),
  );
  return { cursor: mails.lastCursor };
}

export default Keep.workflow({
  name: "router",
  topics: [TOPIC],
  producers: { poll: { schedule: { interval: "1m" }, handler: poll } },
  consumers: { router },
});
