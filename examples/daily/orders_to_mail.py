"""Orders to mail: each new row of Airtable goes to the store room by mail, then is done."""

from duly import workflow

flow = workflow("orders-to-mail", topics=["order.new", "order.told"])
TABLE = "Orders"
STORE_ROOM = "store@example.com"


@flow.producer(every="10m", publishes=["order.new"])
async def look(ctx, state):
    page = await ctx.airtable.rows(table=TABLE, after=(state or {}).get("cursor"))
    for row in page["items"]:
        name, count = row["values"]["Name"], row["values"]["Count"]
        await ctx.publish(
            "order.new",
            message_id=row["id"],
            title=f"Order {row['id']}: {count} × {name}",
            payload={"id": row["id"], "name": name, "count": count},
        )
    return {"cursor": page["last_cursor"]}


@flow.consumer("order.new", publishes=["order.told"])
class tell:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("order.new", limit=1)
        if not pending:
            return {"reservations": [], "data": {}}
        return {
            "reservations": [{"topic": "order.new", "ids": [pending[0]["message_id"]]}],
            "data": pending[0]["payload"],
            "ui": {"title": f"Mail {pending[0]['title']}"},
        }

    async def mutate(self, ctx, prepared):
        order = prepared["data"]
        await ctx.gmail.send(
            to=[STORE_ROOM],
            subject=f"Order {order['id']}",
            text=f"Please pack {order['count']} × {order['name']}.",
        )

    async def next(self, ctx, prepared, result, state):
        if result["status"] != "applied":
            return
        order = prepared["data"]
        await ctx.publish(
            "order.told",
            message_id=order["id"],
            title=f"Order {order['id']} was mailed",
            payload=order,
        )


@flow.consumer("order.told")
class mark:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("order.told", limit=1)
        if not pending:
            return {"reservations": [], "data": {}}
        return {
            "reservations": [{"topic": "order.told", "ids": [pending[0]["message_id"]]}],
            "data": pending[0]["payload"],
            "ui": {"title": f"Mark order {pending[0]['message_id']} as done"},
        }

    async def mutate(self, ctx, prepared):
        order = prepared["data"]
        await ctx.airtable.upsert(
            table=TABLE, merge_on="Name", values={"Name": order["name"], "Done": True}
        )
