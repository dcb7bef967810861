"""News to Telegram: each new entry of a feed is sent to a chat."""

from duly import workflow

flow = workflow("news-to-telegram", topics=["entry.published"])
CHAT = -100123


@flow.producer(every="10m", publishes=["entry.published"])
async def look(ctx, state):
    page = await ctx.feed.items(after=(state or {}).get("cursor"))
    for entry in page["items"]:
        await ctx.publish(
            "entry.published",
            message_id=entry["id"],
            title=f'Entry "{entry["title"]}" ({entry["link"]})',
            payload={"title": entry["title"], "link": entry["link"]},
        )
    return {"cursor": page["last_cursor"]}


@flow.consumer("entry.published")
class tell:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("entry.published", limit=1)
        if not pending:
            return {"reservations": [], "data": {}}
        return {
            "reservations": [{"topic": "entry.published", "ids": [pending[0]["message_id"]]}],
            "data": pending[0]["payload"],
            "ui": {"title": f"Send {pending[0]['title']}"},
        }

    async def mutate(self, ctx, prepared):
        entry = prepared["data"]
        await ctx.telegram.send(chat=CHAT, text=f"{entry['title']}\n{entry['link']}")
