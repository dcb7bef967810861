"""Payments to sheet: each payment that Stripe took becomes a row of a Google sheet."""

from duly import workflow

flow = workflow("payments-to-sheet", topics=["payment.taken"])


@flow.producer(every="15m", publishes=["payment.taken"])
async def look(ctx, state):
    page = await ctx.stripe.list(kind="charges", after=(state or {}).get("cursor"))
    for charge in page["items"]:
        if charge["status"] != "succeeded":
            continue
        amount = f"{charge['amount'] / 100:.2f} {charge['currency'].upper()}"
        await ctx.publish(
            "payment.taken",
            message_id=charge["id"],
            title=f"Payment {charge['id']} of {amount} by {charge['email']}",
            payload={"id": charge["id"], "email": charge["email"], "amount": amount},
        )
    return {"cursor": page["last_cursor"]}


@flow.consumer("payment.taken")
class book:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("payment.taken", limit=1)
        if not pending:
            return {"reservations": [], "data": {}}
        return {
            "reservations": [{"topic": "payment.taken", "ids": [pending[0]["message_id"]]}],
            "data": pending[0]["payload"],
            "ui": {"title": f"Book {pending[0]['title']}"},
        }

    async def mutate(self, ctx, prepared):
        payment = prepared["data"]
        await ctx.sheets.append(
            row={
                "payment": payment["id"],
                "customer": payment["email"],
                "amount": payment["amount"],
            }
        )
