"""Issue digest: the issues of GitHub that changed since yesterday, in one message of Slack."""

from duly import workflow

flow = workflow("issue-digest", topics=["issue.changed"])
REPO = "ada/tea"
CHANNEL = "C024BE91L"


@flow.producer(cron="0 8 * * 1-5", publishes=["issue.changed"])
async def look(ctx, state):
    page = await ctx.github.issues(repo=REPO, after=(state or {}).get("cursor"))
    for issue in page["items"]:
        await ctx.publish(
            "issue.changed",
            message_id=f"{issue['number']} {issue['updated_at']}",
            title=f"Issue #{issue['number']}: {issue['title']}",
            payload={"number": issue["number"], "title": issue["title"], "url": issue["url"]},
        )
    return {"cursor": page["last_cursor"]}


@flow.consumer("issue.changed")
class digest:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("issue.changed", limit=50)
        if not pending:
            return {"reservations": [], "data": {}}
        issues = [each["payload"] for each in pending]
        lines = [f"#{each['number']} {each['title']} ({each['url']})" for each in issues]
        return {
            "reservations": [
                {"topic": "issue.changed", "ids": [each["message_id"] for each in pending]}
            ],
            "data": {"text": "Issues that changed:\n" + "\n".join(lines)},
            "ui": {"title": f"Digest of {len(pending)} issues"},
        }

    async def mutate(self, ctx, prepared):
        await ctx.slack.post(channel=CHANNEL, text=prepared["data"]["text"])
