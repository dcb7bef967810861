"""Chat to Jira: a message of Slack that begins with "bug:" opens an issue of Jira."""

from duly import workflow

flow = workflow("chat-to-jira", topics=["bug.told"])
CHANNEL = "C024BE91L"
PROJECT = "TEA"


@flow.producer(every="1m", publishes=["bug.told"])
async def look(ctx, state):
    page = await ctx.slack.history(channel=CHANNEL, after=(state or {}).get("cursor"))
    for message in page["items"]:
        user, text = message["user"], message["text"]
        if not text.lower().startswith("bug:"):
            continue
        summary = text[4:].strip().split("\n")[0][:200] or "(no words)"
        await ctx.publish(
            "bug.told",
            message_id=message["id"],
            title=f'Message {message["id"]} of {user}: "{summary}"',
            payload={"user": user, "summary": summary, "text": text},
        )
    return {"cursor": page["last_cursor"]}


@flow.consumer("bug.told")
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
        await ctx.jira.create_issue(
            project=PROJECT,
            type="Bug",
            summary=bug["summary"],
            description=f"{bug['user']} wrote in Slack: {bug['text']}",
        )
