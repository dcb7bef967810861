// finds syntax 8

export default Keep.workflow({
  name: "broken",
  topics: ["a"],
  producers: {
    poll: async (ctx) => {
      const found = await ctx.gmail.search({ query: "x" };
      return found.lastCursor;
    },
  },
});
