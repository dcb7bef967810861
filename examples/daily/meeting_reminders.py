"""Meeting reminders: a message on Telegram before each event of the next 24 hours."""

from datetime import datetime, timedelta

from duly import workflow

flow = workflow("meeting-reminders", topics=["meeting.near"])
CHAT = -100123


@flow.producer(every="15m", publishes=["meeting.near"])
async def look(ctx, state):
    now = await ctx.clock.now()
    begin = datetime.fromisoformat(now["iso"])
    end = (begin + timedelta(days=1)).isoformat()
    page = await ctx.google_calendar.list(start=now["iso"], end=end)
    for event in page["items"]:
        await ctx.publish(
            "meeting.near",
            message_id=f"{event['id']} {event['start']}",
            title=f'Meeting "{event["title"]}" at {event["start"]}',
            payload={"title": event["title"], "start": event["start"]},
        )


@flow.consumer("meeting.near")
class remind:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("meeting.near", limit=1)
        if not pending:
            return {"reservations": [], "data": {}}
        return {
            "reservations": [{"topic": "meeting.near", "ids": [pending[0]["message_id"]]}],
            "data": pending[0]["payload"],
            "ui": {"title": f"Remind of {pending[0]['title']}"},
        }

    async def mutate(self, ctx, prepared):
        meeting = prepared["data"]
        await ctx.telegram.send(chat=CHAT, text=f"{meeting['title']} begins at {meeting['start']}")
