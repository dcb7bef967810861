"""Time window: the first alarm opens an hour; at its end all that came in it is one letter.

Every file in inbox/ is an alarm, named after it; every window is a letter in outbox/.
"""

from datetime import datetime, timedelta, timezone

from duly import workflow

WINDOW = timedelta(hours=1)

flow = workflow("time-window", topics={"alarm.raised": {"ingress": True}, "window.closed": {}})


@flow.producer(every="1m", publishes=["alarm.raised"])
async def look(ctx, state):
    page = await ctx.inbox.search(pattern="*.txt", after=(state or {}).get("cursor"))
    for found in page["items"]:
        name = found["path"].removesuffix(".txt")
        await ctx.publish("alarm.raised", message_id=name, title=name)
    return {"cursor": page["last_cursor"]}


@flow.consumer("alarm.raised", publishes=["window.closed"])
class gather:
    async def prepare(self, ctx, state):
        alarms = await ctx.peek("alarm.raised", limit=1000)
        if not alarms:
            return {"reservations": [], "data": {"closes_at": None}}
        now = datetime.now(timezone.utc)
        closes_at = (state or {}).get("closes_at") or (now + WINDOW).isoformat()
        # Every alarm wakes this consumer; until the window closes it only looks.
        if now < datetime.fromisoformat(closes_at):
            return {"reservations": [], "data": {"closes_at": closes_at}, "wake_at": closes_at}
        return {
            "reservations": [
                {"topic": "alarm.raised", "ids": [alarm["message_id"] for alarm in alarms]}
            ],
            "data": {
                "closes_at": None,
                "closed_at": closes_at,
                "first": alarms[0]["message_id"],
                "titles": [alarm["title"] for alarm in alarms],
            },
            "ui": {"title": f"Report {len(alarms)} alarms of the last hour"},
        }

    async def mutate(self, ctx, prepared):
        titles = prepared["data"]["titles"]
        text = f"{len(titles)} alarms: {', '.join(titles)}\n"
        path = f"from {prepared['data']['first']}.txt"
        await ctx.outbox.write(path=path, text=text)

    async def next(self, ctx, prepared, result, state):
        if result["status"] == "applied":
            await ctx.publish(
                "window.closed",
                message_id=f"window:{prepared['data']['closed_at']}",
                title=f"{len(prepared['data']['titles'])} alarms in an hour",
                payload={"titles": prepared["data"]["titles"]},
            )
        return {"closes_at": prepared["data"]["closes_at"]}
