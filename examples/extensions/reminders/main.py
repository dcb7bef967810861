"""Whatever the user writes behind the prefix is said to them again, later; a restart loses none."""

import duly


class Reminders(duly.Extension):
    async def initialize(self, context):
        self.context = context
        context.subscribe_event("user.message", self.on_message)

    async def on_message(self, event):
        config = self.context.config
        text = event.payload["text"]
        if text.startswith(config["prefix"]):
            reminder = {**event.payload, "text": text.removeprefix(config["prefix"]).strip()}
            await self.context.schedule_at(config["delay_s"], "reminder.due", reminder)
