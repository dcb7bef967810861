"""Correlation: an order is shipped when both it and its payment are there, whichever came first.

Every file in orders/ is an order with its item, every file in payments/ names the order it is
for; every order that is paid is a letter in outbox/.
"""

from duly import workflow

LOOK = 1000

flow = workflow(
    "correlation",
    topics={
        "order.placed": {"ingress": True},
        "payment.received": {"ingress": True},
        "order.ready": {},
    },
)


@flow.producer(every="1m", publishes=["order.placed"])
async def orders(ctx, state):
    page = await ctx.orders.search(pattern="*.txt", after=(state or {}).get("cursor"))
    for found in page["items"]:
        name = found["path"].removesuffix(".txt")
        file = await ctx.orders.read(path=found["path"])
        item = file["text"].strip() if file and file["text"] else ""
        await ctx.publish(
            "order.placed", message_id=name, title=f"Order {name}", payload={"item": item}
        )
    return {"cursor": page["last_cursor"]}


@flow.producer(every="1m", publishes=["payment.received"])
async def payments(ctx, state):
    page = await ctx.payments.search(pattern="*.txt", after=(state or {}).get("cursor"))
    for found in page["items"]:
        name = found["path"].removesuffix(".txt")
        file = await ctx.payments.read(path=found["path"])
        order = file["text"].strip() if file and file["text"] else ""
        await ctx.publish(
            "payment.received", message_id=name, title=f"Payment {name}", payload={"order": order}
        )
    return {"cursor": page["last_cursor"]}


@flow.consumer("order.placed", "payment.received", publishes=["order.ready"])
class match:
    async def prepare(self, ctx, state):
        orders = await ctx.peek("order.placed", limit=LOOK)
        payments = await ctx.peek("payment.received", limit=LOOK)
        # The payment's payload says which order it is for; a message id only names the payment.
        paid = {payment["payload"]["order"]: payment for payment in payments}
        matched = [order for order in orders if order["message_id"] in paid]
        if not matched:
            return {"reservations": [], "data": {}}
        order = matched[0]
        payment = paid[order["message_id"]]
        return {
            "reservations": [
                {"topic": "order.placed", "ids": [order["message_id"]]},
                {"topic": "payment.received", "ids": [payment["message_id"]]},
            ],
            "data": {"order": order["message_id"], "item": order["payload"]["item"]},
            "ui": {"title": f"Ship order {order['message_id']}"},
        }

    async def mutate(self, ctx, prepared):
        order = prepared["data"]
        text = f"Ship order {order['order']}: {order['item']}\n"
        await ctx.outbox.write(path=f"{order['order']}.txt", text=text)

    async def next(self, ctx, prepared, result, state):
        if result["status"] != "applied":
            return
        await ctx.publish(
            "order.ready",
            message_id=f"ready:{prepared['data']['order']}",
            title=f"Order {prepared['data']['order']} is paid and on its way",
            payload={"item": prepared["data"]["item"]},
        )
