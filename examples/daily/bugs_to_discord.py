"""Bugs to Discord: each issue of GitHub with the label bug is told in a channel."""

from duly import workflow

flow = workflow("bugs-to-discord", topics=["bug.opened"])
REPO = "ada/tea"
CHANNEL = "1100000000000000001"


@flow.producer(every="15m", publishes=["bug.opened"])
async def look(ctx, state):
    cursor = (state or {}).get("cursor")
    page = await ctx.github.issues(repo=REPO, labels=["bug"], after=cursor)
    for issue in page["items"]:
        await ctx.publish(
            "bug.opened",
            message_id=str(issue["number"]),
            title=f"Issue #{issue['number']}: {issue['title']}",
            payload={"number": issue["number"], "title": issue["title"], "url": issue["url"]},
        )
    return {"cursor": page["last_cursor"]}


@flow.consumer("bug.opened")
class tell:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("bug.opened", limit=1)
        if not pending:
            return {"reservations": [], "data": {}}
        return {
            "reservations": [{"topic": "bug.opened", "ids": [pending[0]["message_id"]]}],
            "data": pending[0]["payload"],
            "ui": {"title": f"Tell of {pending[0]['title']}"},
        }

    async def mutate(self, ctx, prepared):
        bug = prepared["data"]
        await ctx.discord.send(
            channel=CHANNEL, text=f"Bug {bug['number']}: {bug['title']}\n{bug['url']}"
        )
