"""Minutes for meetings: each event of a Google calendar gets an empty file for its minutes."""

from duly import workflow

flow = workflow("minutes-for-meetings", topics=["meeting.planned"])


@flow.producer(every="1h", publishes=["meeting.planned"])
async def look(ctx, state):
    now = await ctx.clock.now()
    end = await ctx.clock.next(at="23:59", weekday="sunday")
    events = await ctx.google_calendar.list(start=now["iso"], end=end)
    for event in events["items"]:
        await ctx.publish(
            "meeting.planned",
            message_id=event["id"],
            title=event["title"] or "(no title)",
            payload={"title": event["title"], "start": event["start"]},
        )


@flow.consumer("meeting.planned")
class prepare_minutes:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("meeting.planned", limit=1)
        if not pending:
            return {"reservations": [], "data": {}}
        return {
            "reservations": [{"topic": "meeting.planned", "ids": [pending[0]["message_id"]]}],
            "data": pending[0]["payload"],
            "ui": {"title": f"Minutes for {pending[0]['title']}"},
        }

    async def mutate(self, ctx, prepared):
        meeting = prepared["data"]
        day = meeting["start"][:10]
        await ctx.drive.create(
            name=f"{day} {meeting['title']}.txt", text=f"{meeting['title']}, {day}\n\nPresent:\n"
        )
