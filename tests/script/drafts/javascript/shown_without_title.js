// finds mutate-without-title 13

export default Keep.workflow({
  name: "birthday-mails",
  topics: ["birthday"],
  consumers: {
    congratulate: Keep.consumer({
      subscribe: ["birthday"],
      async prepare(ctx) {
        const [person] = await ctx.peek("birthday", { limit: 1 });
        const result = { reservations: [], data: {} };
        if (!person) return result;
        return {
          reservations: [{ topic: "birthday", ids: [person.id] }],
          data: person.payload,
          ui: { description: `Congratulate ${person.payload.name}` },
        };
      },
      async mutate(ctx, { data }) {
        await ctx.gmail.send({ to: data.email, subject: "Happy birthday", body: `Dear ${data.name}` });
      },
    }),
  },
});
