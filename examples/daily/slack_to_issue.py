"""Slack to issue: a message that begins with "bug:" opens an issue, then gets a check mark."""

from duly import workflow

flow = workflow("slack-to-issue", topics=["bug.told", "bug.filed"])
REPO = "ada/tea"
CHANNEL = "C024BE91L"


@flow.producer(every="1m", publishes=["bug.told"])
async def look(ctx, state):
    page = await ctx.slack.history(channel=CHANNEL, after=(state or {}).get("cursor"))
    for message in page["items"]:
        text = message["text"]
        if not text.lower().startswith("bug:"):
            continue
        title = text[4:].strip().split("\n")[0][:200] or "(no words)"
        await ctx.publish(
            "bug.told",
            message_id=message["id"],
            title=f'Message {message["id"]} of {message["user"]}: "{title}"',
            payload={"id": message["id"], "user": message["user"], "title": title, "text": text},
        )
    return {"cursor": page["last_cursor"]}


@flow.consumer("bug.told", publishes=["bug.filed"])
class file:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("bug.told", limit=1)
        if not pending:
            return {"reservations": [], "data": {}}
        return {
            "reservations": [{"topic": "bug.told", "ids": [pending[0]["message_id"]]}],
            "data": pending[0]["payload"],
            "ui": {"title": f"Open an issue for {pending[0]['title']}"},
        }

    async def mutate(self, ctx, prepared):
        bug = prepared["data"]
        await ctx.github.create_issue(
            repo=REPO, title=bug["title"], text=f"{bug['user']} wrote in Slack:\n\n{bug['text']}"
        )

    async def next(self, ctx, prepared, result, state):
        if result["status"] != "applied":
            return
        bug = prepared["data"]
        await ctx.publish(
            "bug.filed",
            message_id=bug["id"],
            title=f'Bug "{bug["title"]}" of message {bug["id"]} was filed',
            payload={"id": bug["id"], "title": bug["title"]},
        )


@flow.consumer("bug.filed")
class mark:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("bug.filed", limit=1)
        if not pending:
            return {"reservations": [], "data": {}}
        return {
            "reservations": [{"topic": "bug.filed", "ids": [pending[0]["message_id"]]}],
            "data": pending[0]["payload"],
            "ui": {"title": f'Mark the message about "{pending[0]["payload"]["title"]}"'},
        }

    async def mutate(self, ctx, prepared):
        await ctx.slack.react(channel=CHANNEL, ts=prepared["data"]["id"], emoji="white_check_mark")
