"""Daily digest: notes are gathered all day and posted together at nine in the morning (UTC).

Every file in inbox/ is a note, named after it; every digest is a letter in outbox/.
"""

from datetime import datetime, timedelta, timezone

from duly import workflow

DIGEST_AT_HOUR = 9

flow = workflow("daily-digest", topics={"note.written": {"ingress": True}, "digest.posted": {}})


@flow.producer(every="1m", publishes=["note.written"])
async def look(ctx, state):
    page = await ctx.inbox.search(pattern="*.txt", after=(state or {}).get("cursor"))
    for found in page["items"]:
        name = found["path"].removesuffix(".txt")
        await ctx.publish("note.written", message_id=name, title=name)
    return {"cursor": page["last_cursor"]}


def digest_times():
    """Return the last nine o'clock that has passed, and the next one."""
    now = datetime.now(timezone.utc)
    last = now.replace(hour=DIGEST_AT_HOUR, minute=0, second=0, microsecond=0)
    if last > now:
        last = last - timedelta(days=1)
    return last, last + timedelta(days=1)


def milliseconds(moment):
    return round(moment.timestamp() * 1000)


@flow.consumer("note.written")
class digest:
    async def prepare(self, ctx, state):
        last, following = digest_times()
        at = milliseconds(last)
        wake_at = following.isoformat()
        # The first run only learns what time it is; from then on nine o'clock is noticed once.
        is_due = state is not None and state["digest_at"] < at
        notes = await ctx.peek("note.written") if is_due else []
        if not notes:
            return {"reservations": [], "data": {"at": at}, "wake_at": wake_at}
        titles = [note["title"] for note in notes]
        return {
            "reservations": [{"topic": "note.written", "ids": [note["id"] for note in notes]}],
            "data": {"at": at, "day": last.isoformat()[:10], "titles": titles},
            "ui": {"title": f"Post a digest of {len(notes)} notes"},
            "wake_at": wake_at,
        }

    async def mutate(self, ctx, prepared):
        lines = [f"- {title}\n" for title in prepared["data"]["titles"]]
        path = f"{prepared['data']['day']}.txt"
        await ctx.outbox.write(path=path, text="".join(lines))

    async def next(self, ctx, prepared, result, state):
        if result["status"] == "applied":
            await ctx.publish(
                "digest.posted",
                message_id=f"digest:{prepared['data']['at']}",
                title=f"Digest of {len(prepared['data']['titles'])} notes",
                payload={"titles": prepared["data"]["titles"]},
            )
        return {"digest_at": prepared["data"]["at"]}
