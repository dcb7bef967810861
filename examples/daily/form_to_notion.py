"""Form to Notion: each form that a web page sends becomes a page of a Notion database."""

from duly import workflow

flow = workflow("form-to-notion", topics={"form.sent": {"ingress": True}})
DATABASE = "d0000000-0000-4000-8000-000000000001"


@flow.consumer("form.sent")
class keep:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("form.sent", limit=1)
        if not pending:
            return {"reservations": [], "data": {}}
        form = pending[0]["payload"]
        return {
            "reservations": [{"topic": "form.sent", "ids": [pending[0]["message_id"]]}],
            "data": {"name": form["name"], "wish": form["wish"]},
            "ui": {"title": f"Keep {pending[0]['title']}"},
        }

    async def mutate(self, ctx, prepared):
        form = prepared["data"]
        await ctx.notion.create(
            database=DATABASE,
            values={"Name": form["name"], "Note": form["wish"], "Status": "New"},
        )
