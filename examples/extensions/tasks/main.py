"""Whatever the user writes behind the prefix is a task."""

import duly


class Tasks(duly.Extension):
    async def initialize(self, context):
        self.context = context
        context.subscribe_event("user.message", self.on_message)

    async def on_message(self, event):
        prefix = self.context.config["prefix"]
        text = event.payload["text"]
        if text.startswith(prefix):
            task = {**event.payload, "text": text.removeprefix(prefix).strip()}
            await self.context.emit("task.received", task)
