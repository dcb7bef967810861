"""Plans the next check-in, and remembers how many there were."""

import duly


class CheckinProcessor(duly.Extension):
    async def initialize(self, context):
        self.context = context
        context.subscribe_event("checkin.started", self.on_checkin)

    async def on_checkin(self, event):
        step, total = event.payload["step"], event.payload["total"]
        await self.context.put_state("last", {"step": step, "event": event.id})
        if step < total:
            later = {"step": step + 1, "total": total}
            await self.context.schedule_at(self.context.config["pause_s"], "checkin.started", later)
