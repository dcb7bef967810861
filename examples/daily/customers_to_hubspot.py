"""Customers to HubSpot: each new customer of Stripe becomes a contact."""

from duly import workflow

flow = workflow("customers-to-hubspot", topics=["customer.made"])


@flow.producer(every="1h", publishes=["customer.made"])
async def look(ctx, state):
    page = await ctx.stripe.list(kind="customers", after=(state or {}).get("cursor"))
    for customer in page["items"]:
        await ctx.publish(
            "customer.made",
            message_id=customer["id"],
            title=f"Customer {customer['id']}: {customer['email']}",
            payload={"email": customer["email"], "name": customer["data"].get("name") or ""},
        )
    return {"cursor": page["last_cursor"]}


@flow.consumer("customer.made")
class add:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("customer.made", limit=1)
        if not pending:
            return {"reservations": [], "data": {}}
        return {
            "reservations": [{"topic": "customer.made", "ids": [pending[0]["message_id"]]}],
            "data": pending[0]["payload"],
            "ui": {"title": f"Add {pending[0]['title']}"},
        }

    async def mutate(self, ctx, prepared):
        customer = prepared["data"]
        await ctx.hubspot.create_contact(email=customer["email"], lastname=customer["name"])
