// finds wrong-result 9

export default Keep.workflow({
  name: "follow-ups",
  topics: ["follow.up"],
  consumers: {
    remind: Keep.consumer({
      subscribe: ["follow.up"],
      async prepare(ctx) {
        const [due] = await ctx.peek("follow.up", { limit: 1 });
        if (due) {
          return {
            reservations: [{ topic: "follow.up", ids: [due.messageId] }],
            data: due.payload,
            ui: { title: `Remind ${due.payload.email}` },
          };
        }
      },
      async mutate(ctx, { data }) {
        await ctx.gmail.send({ to: data.email, subject: "Following up", body: data.text });
      },
    }),
  },
});
