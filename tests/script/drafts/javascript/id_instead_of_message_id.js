// finds missing-message-id 11
// finds wrong-argument 12

export default Keep.workflow({
  name: "notion-tasks",
  topics: ["task"],
  producers: {
    poll: async (ctx) => {
      const tasks = await ctx.notion.queryDatabase({ databaseId: "tasks" });
      for (const task of tasks) {
        await ctx.publish("task", {
          id: task.id,
          title: `Task "${task.name}"`,
          payload: task,
        });
      }
    },
  },
});
