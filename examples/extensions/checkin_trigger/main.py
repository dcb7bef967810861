"""The user says `check in`, and the first of several check-ins starts."""

import duly


class CheckinTrigger(duly.Extension):
    async def initialize(self, context):
        self.context = context
        context.subscribe_event("user.message", self.on_message)

    async def on_message(self, event):
        if event.payload["text"] == "check in":
            first = {"step": 1, "total": self.context.config["total"]}
            # One id for the whole chain, so that it can be found again in the journal.
            await self.context.emit("checkin.started", first, f"checkin-{event.id}")
