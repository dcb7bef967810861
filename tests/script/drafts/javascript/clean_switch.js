// finds nothing

export default Keep.workflow({
  name: "commands",
  topics: { command: { ingress: { bus: "user.message" } } },
  consumers: {
    run: Keep.consumer({
      subscribe: ["command"],
      async prepare(ctx) {
        const commands = await ctx.peek("command", { limit: 1 });
        switch (commands.length) {
          case 0:
            return { reservations: [], data: {} };
          default: {
            const [{ messageId, payload }] = commands;
            return {
              reservations: [{ topic: "command", ids: [messageId] }],
              data: payload,
              ui: { title: `Run "${payload.text}"` },
            };
          }
        }
      },
      async mutate(ctx, { data: { text } }) {
        const [verb, ...rest] = text.split(" ");
        switch (verb) {
          case "issue":
            await ctx.github.createIssue({ repo: "acme/app", title: rest.join(" ") });
            break;
          case "row":
            await ctx.sheets.appendRow({ spreadsheetId: "notes", values: rest });
            break;
          default:
            await ctx.slack.postMessage({ channel: "#bot", text: `I do not know ${verb}` });
        }
      },
    }),
  },
});
