// Mails to Trello: each mail of Outlook whose subject begins with "todo:" becomes a card.

const BOARD = "board";
const LIST = "To do";
const SINCE = "2026-01-01T00:00:00Z"; // older mails are left alone

export default Keep.workflow({
  name: "mails-to-trello",

  topics: ["todo.mailed"],

  producers: {
    look: {
      schedule: { interval: "5m" },
      publishes: ["todo.mailed"],
      handler: async (ctx, state) => {
        const mails = await ctx.outlook.messages({ receivedAfter: SINCE, after: state?.cursor });
        for (const mail of mails) {
          const subject = mail.subject ?? "";
          if (!subject.toLowerCase().startsWith("todo:")) continue;
          const sender = mail.from?.emailAddress?.address ?? "an unknown sender";
          await ctx.publish("todo.mailed", {
            messageId: mail.id,
            title: `Mail from ${sender}: "${subject}"`,
            payload: { todo: subject.slice(5).trim().slice(0, 200) || "(no words)", sender },
          });
        }
        return { cursor: mails.lastCursor };
      },
    },
  },

  consumers: {
    add: Keep.consumer({
      subscribe: ["todo.mailed"],

      async prepare(ctx) {
        const [mail] = await ctx.peek("todo.mailed", { limit: 1 });
        if (!mail) return { reservations: [], data: {} };
        const lists = await ctx.trello.lists({ board: BOARD });
        const found = lists.find((each) => each.name === LIST);
        if (!found) throw new Error(`The board has no list ${LIST}`);
        return {
          reservations: [{ topic: "todo.mailed", ids: [mail.messageId] }],
          data: { ...mail.payload, list: found.id },
          ui: { title: `Add a card for ${mail.title}` },
        };
      },

      async mutate(ctx, prepared) {
        const { todo, sender, list } = prepared.data;
        const description = `From ${sender}`;
        await ctx.trello.createCard({ board: BOARD, list, name: todo, description });
      },
    }),
  },
});
