"""Files to Slack: each new file of a Drive folder is told in a channel."""

from duly import workflow

flow = workflow("files-to-slack", topics=["file.added"])
CHANNEL = "C024BE91L"


# Drive has no cursor of arrivals: a file that was told before is the same event again.
@flow.producer(every="10m", publishes=["file.added"])
async def look(ctx, state):
    page = await ctx.drive.list()
    for found in page["items"]:
        await ctx.publish(
            "file.added",
            message_id=found["id"],
            title=f'File "{found["name"]}" ({found["id"]})',
            payload={"name": found["name"], "link": found["link"]},
        )


@flow.consumer("file.added")
class tell:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("file.added", limit=1)
        if not pending:
            return {"reservations": [], "data": {}}
        return {
            "reservations": [{"topic": "file.added", "ids": [pending[0]["message_id"]]}],
            "data": pending[0]["payload"],
            "ui": {"title": f"Tell of {pending[0]['title']}"},
        }

    async def mutate(self, ctx, prepared):
        found = prepared["data"]
        await ctx.slack.post(channel=CHANNEL, text=f"New file: {found['name']}\n{found['link']}")
