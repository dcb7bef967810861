// finds no-workflow 1

export const producers = {
  async poll(ctx) {
    const mails = await ctx.gmail.search({});
    return { count: mails.length };
  },
};
