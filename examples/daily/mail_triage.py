"""Mail triage: an urgent mail is told in Slack; every other mail gets the label Later."""

from duly import workflow

flow = workflow("mail-triage", topics=["mail.urgent", "mail.other"])
URGENT = ("urgent", "outage", "overdue")
CHANNEL = "C024BE91L"


@flow.producer(every="5m", publishes=["mail.urgent", "mail.other"])
async def look(ctx, state):
    page = await ctx.gmail.search(after=(state or {}).get("cursor"))
    for mail in page["items"]:
        subject = mail["subject"].lower()
        title = f'Email from {mail["from"]}: "{mail["subject"]}"'
        payload = {"id": mail["id"], "from": mail["from"], "subject": mail["subject"]}
        if any(word in subject for word in URGENT):
            await ctx.publish("mail.urgent", message_id=mail["id"], title=title, payload=payload)
        else:
            await ctx.publish("mail.other", message_id=mail["id"], title=title, payload=payload)
    return {"cursor": page["last_cursor"]}


@flow.consumer("mail.urgent")
class tell:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("mail.urgent", limit=1)
        if not pending:
            return {"reservations": [], "data": {}}
        return {
            "reservations": [{"topic": "mail.urgent", "ids": [pending[0]["message_id"]]}],
            "data": pending[0]["payload"],
            "ui": {"title": f"Tell Slack: {pending[0]['title']}"},
        }

    async def mutate(self, ctx, prepared):
        mail = prepared["data"]
        await ctx.slack.post(channel=CHANNEL, text=f"{mail['from']} writes: {mail['subject']}")


@flow.consumer("mail.other")
class put_aside:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("mail.other", limit=1)
        if not pending:
            return {"reservations": [], "data": {}}
        return {
            "reservations": [{"topic": "mail.other", "ids": [pending[0]["message_id"]]}],
            "data": pending[0]["payload"],
            "ui": {"title": f"Put aside: {pending[0]['title']}"},
        }

    async def mutate(self, ctx, prepared):
        await ctx.gmail.label(id=prepared["data"]["id"], label="Later")
