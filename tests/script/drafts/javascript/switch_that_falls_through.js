// finds several-mutations 23

export default Keep.workflow({
  name: "by-priority",
  topics: ["alarm"],
  consumers: {
    act: Keep.consumer({
      subscribe: ["alarm"],
      async prepare(ctx) {
        const [alarm] = await ctx.peek("alarm", { limit: 1 });
        if (!alarm) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "alarm", ids: [alarm.messageId] }],
          data: alarm.payload,
          ui: { title: `Act on ${alarm.title}` },
        };
      },
      async mutate(ctx, { data }) {
        switch (data.priority) {
          case "high":
            await ctx.github.createIssue({ repo: "acme/ops", title: data.text });
          case "normal":
            await ctx.slack.postMessage({ channel: "#ops", text: data.text });
            break;
          default:
            await ctx.sheets.appendRow({ spreadsheetId: "alarms", values: [data.text] });
        }
      },
    }),
  },
});
