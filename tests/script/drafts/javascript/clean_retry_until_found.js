// finds nothing

const WAIT_MS = 10 * 60 * 1000;

export default Keep.workflow({
  name: "wait for an answer",
  topics: { question: { ingress: true }, answered: {} },
  consumers: {
    answer: Keep.consumer({
      subscribe: ["question"],
      async prepare(ctx, state = { asked: {} }) {
        const questions = await ctx.peek("question");
        for (const question of questions) {
          const replies = await ctx.slack.listMessages({ channel: "#help", after: question.payload.after });
          const reply = replies.find((message) => message.thread === question.payload.thread);
          if (!reply) continue;
          return {
            reservations: [{ topic: question.topic, ids: [question.messageId] }],
            data: { to: question.payload.from, text: reply.text, id: question.messageId },
            ui: { title: `Answer ${question.payload.from}` },
          };
        }
        const later = new Date(Date.now() + WAIT_MS);
        return { reservations: [], data: {}, ...(questions.length > 0 && { wakeAt: later.toISOString() }) };
      },
      async mutate(ctx, { data: { to, text } }) {
        await ctx.gmail.send({ to, subject: "Your question", body: text });
      },
      async next(ctx, { data }, result) {
        if (result.status === "none") return;
        await ctx.publish("answered", {
          messageId: data.id,
          title: `${result.status === "applied" ? "Answered" : "Declined"}: ${data.to}`,
          payload: { ok: result.status === "applied" },
        });
      },
    }),
  },
});
