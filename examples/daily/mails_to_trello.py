"""Mails to Trello: each mail of Outlook whose subject begins with "todo:" becomes a card."""

from duly import workflow

flow = workflow("mails-to-trello", topics=["todo.mailed"])
BOARD = "board"
LIST = "To do"
SINCE = "2026-01-01T00:00:00Z"  # older mails are left alone


@flow.producer(every="5m", publishes=["todo.mailed"])
async def look(ctx, state):
    cursor = (state or {}).get("cursor")
    page = await ctx.outlook.messages(received_after=SINCE, after=cursor)
    for mail in page["items"]:
        subject = mail["subject"] or ""
        if not subject.lower().startswith("todo:"):
            continue
        sender = ((mail["from"] or {}).get("emailAddress") or {}).get("address")
        sender = sender or "an unknown sender"
        await ctx.publish(
            "todo.mailed",
            message_id=mail["id"],
            title=f'Mail from {sender}: "{subject}"',
            payload={"todo": subject[5:].strip()[:200] or "(no words)", "sender": sender},
        )
    return {"cursor": page["last_cursor"]}


@flow.consumer("todo.mailed")
class add:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("todo.mailed", limit=1)
        if not pending:
            return {"reservations": [], "data": {}}
        lists = await ctx.trello.lists(board=BOARD)
        found = [each["id"] for each in lists if each["name"] == LIST]
        if not found:
            raise ValueError(f"The board has no list {LIST}")
        return {
            "reservations": [{"topic": "todo.mailed", "ids": [pending[0]["message_id"]]}],
            "data": {**pending[0]["payload"], "list": found[0]},
            "ui": {"title": f"Add a card for {pending[0]['title']}"},
        }

    async def mutate(self, ctx, prepared):
        data = prepared["data"]
        await ctx.trello.create_card(
            board=BOARD, list=data["list"], name=data["todo"], description=f"From {data['sender']}"
        )
