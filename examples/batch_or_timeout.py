"""Batch or timeout: parcels leave ten at a time, or after an hour however few there are.

Every file in inbox/ is a parcel, named after it; every van is a row of the table `vans`.
"""

from datetime import datetime, timedelta, timezone

from duly import workflow

FULL = 10
PATIENCE = timedelta(hours=1)

flow = workflow("batch-or-timeout", topics={"parcel.packed": {"ingress": True}, "van.sent": {}})


@flow.producer(every="1m", publishes=["parcel.packed"])
async def look(ctx, state):
    page = await ctx.inbox.search(pattern="*.txt", after=(state or {}).get("cursor"))
    for found in page["items"]:
        name = found["path"].removesuffix(".txt")
        await ctx.publish("parcel.packed", message_id=name, title=f"Parcel {name}")
    return {"cursor": page["last_cursor"]}


@flow.consumer("parcel.packed", publishes=["van.sent"])
class load:
    async def prepare(self, ctx, state):
        parcels = await ctx.peek("parcel.packed", limit=FULL)
        if not parcels:
            return {"reservations": [], "data": {"leaves_at": None}}
        now = datetime.now(timezone.utc)
        leaves_at = (state or {}).get("leaves_at") or (now + PATIENCE).isoformat()
        if len(parcels) < FULL and now < datetime.fromisoformat(leaves_at):
            return {"reservations": [], "data": {"leaves_at": leaves_at}, "wake_at": leaves_at}
        ids = [parcel["message_id"] for parcel in parcels]
        return {
            "reservations": [{"topic": "parcel.packed", "ids": ids}],
            "data": {"leaves_at": None, "parcels": ids},
            "ui": {"title": f"Send a van with {len(ids)} parcels, from {ids[0]} on"},
        }

    async def mutate(self, ctx, prepared):
        parcels = prepared["data"]["parcels"]
        row = {"first": parcels[0], "parcels": ", ".join(parcels)}
        await ctx.table.insert(table="vans", row=row)

    async def next(self, ctx, prepared, result, state):
        if result["status"] == "applied":
            parcels = prepared["data"]["parcels"]
            await ctx.publish(
                "van.sent",
                message_id=f"van:{parcels[0]}",
                title=f"Van with {len(parcels)} parcels, from {parcels[0]} on",
                payload={"parcels": parcels},
            )
        return {"leaves_at": prepared["data"]["leaves_at"]}
