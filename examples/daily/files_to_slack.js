// Files to Slack: each new file of a Drive folder is told in a channel.

const CHANNEL = "C024BE91L";

export default Keep.workflow({
  name: "files-to-slack",

  topics: ["file.added"],

  producers: {
    look: {
      schedule: { interval: "10m" },
      publishes: ["file.added"],
      // Drive has no cursor of arrivals: a file that was told before is the same event again.
      handler: async (ctx) => {
        const files = await ctx.drive.list({});
        for (const file of files) {
          await ctx.publish("file.added", {
            messageId: file.id,
            title: `File "${file.name}" (${file.id})`,
            payload: { name: file.name, link: file.link },
          });
        }
      },
    },
  },

  consumers: {
    tell: Keep.consumer({
      subscribe: ["file.added"],

      async prepare(ctx) {
        const [file] = await ctx.peek("file.added", { limit: 1 });
        if (!file) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "file.added", ids: [file.messageId] }],
          data: file.payload,
          ui: { title: `Tell of ${file.title}` },
        };
      },

      async mutate(ctx, prepared) {
        const { name, link } = prepared.data;
        await ctx.slack.post({ channel: CHANNEL, text: `New file: ${name}\n${link}` });
      },
    }),
  },
});
