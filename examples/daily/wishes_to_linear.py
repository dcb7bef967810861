"""Wishes to Linear: each wish that a form of a web page sends becomes an issue of a team."""

from duly import workflow

flow = workflow("wishes-to-linear", topics={"form.sent": {"ingress": True}})
TEAM = "tea"


@flow.consumer("form.sent")
class open_issue:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("form.sent", limit=1)
        if not pending:
            return {"reservations": [], "data": {}}
        return {
            "reservations": [{"topic": "form.sent", "ids": [pending[0]["message_id"]]}],
            "data": pending[0]["payload"],
            "ui": {"title": f"Open an issue for {pending[0]['title']}"},
        }

    async def mutate(self, ctx, prepared):
        form = prepared["data"]
        await ctx.linear.create_issue(
            team=TEAM, title=form["wish"][:200], description=f"Wished by {form['name']}"
        )
