"""An agent without a model: it says back what it was asked about."""

import duly


class Assistant(duly.Extension):
    async def answer(self, event, instructions, model):
        if event.topic == "checkin.started":
            return f"Check-in {event.payload['step']} of {event.payload['total']}: how is it going?"
        return f"{instructions.strip()} {event.payload['text']}"
