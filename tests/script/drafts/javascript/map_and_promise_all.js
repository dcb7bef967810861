// finds several-mutations 21

export default Keep.workflow({
  name: "digest",
  topics: ["note.added"],
  consumers: {
    sync: Keep.consumer({
      subscribe: ["note.added"],
      async prepare(ctx) {
        const notes = await ctx.peek("note.added");
        if (notes.length === 0) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "note.added", ids: notes.map((n) => n.messageId) }],
          data: { notes: notes.map((n) => n.payload) },
          ui: { title: `Copy ${notes.length} notes to Notion` },
        };
      },
      async mutate(ctx, prepared) {
        await Promise.all(
          prepared.data.notes.map((note) =>
            ctx.notion.createPage({ databaseId: "notes", properties: { Name: note.text } }),
          ),
        );
      },
    }),
  },
});
