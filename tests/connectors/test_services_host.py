"""New issues of GitHub are told in Slack: by a host, in both languages, at the doubles."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import duly
from duly.connectors import Github, Slack
from duly.host import Host
from duly.rules.source import Language
from duly.rules.word import MutationStatus
from duly.testing.doubles.base import HOST
from duly.testing.doubles.github import REPO, GithubDouble
from duly.testing.doubles.slack import CHANNEL, SlackDouble

pytestmark = pytest.mark.anyio

TOKEN = "token-of-the-test"
PYTHON = f"""
from duly import workflow

flow = workflow("issues-to-slack", topics=["issue.opened"])


@flow.producer(every="5m")
async def look(ctx, state):
    page = await ctx.github.issues(repo="{REPO}", after=(state or {{}}).get("cursor"))
    for issue in page["items"]:
        await ctx.publish(
            "issue.opened",
            message_id=str(issue["number"]),
            title=issue["title"],
            payload={{"title": issue["title"], "url": issue["url"]}},
        )
    return {{"cursor": page["last_cursor"]}}


@flow.consumer("issue.opened")
class tell:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("issue.opened", limit=1)
        if not pending:
            return {{"reservations": []}}
        ids = [pending[0]["message_id"]]
        return {{
            "reservations": [{{"topic": "issue.opened", "ids": ids}}],
            "data": pending[0]["payload"],
        }}

    async def mutate(self, ctx, prepared):
        issue = prepared["data"]
        await ctx.slack.post(channel="{CHANNEL}", text=f'{{issue["title"]}}: {{issue["url"]}}')
"""
JAVASCRIPT = f"""
export default Keep.workflow({{
  name: "issues-to-slack",
  topics: {{ "issue.opened": {{}} }},
  producers: {{
    look: {{
      schedule: {{ interval: "5m" }},
      publishes: ["issue.opened"],
      handler: async (ctx, state) => {{
        const page = await ctx.github.issues({{ repo: "{REPO}", after: state?.cursor }});
        for (const issue of page) {{
          const payload = {{ title: issue.title, url: issue.url }};
          const messageId = String(issue.number);
          await ctx.publish("issue.opened", {{ messageId, title: issue.title, payload }});
        }}
        return {{ cursor: page.lastCursor }};
      }},
    }},
  }},
  consumers: {{
    tell: Keep.consumer({{
      subscribe: ["issue.opened"],
      async prepare(ctx) {{
        const [issue] = await ctx.peek("issue.opened", {{ limit: 1 }});
        if (issue === undefined) return {{ reservations: [] }};
        return {{
          reservations: [{{ topic: "issue.opened", ids: [issue.messageId] }}],
          data: issue.payload,
        }};
      }},
      async mutate(ctx, prepared) {{
        const {{ title, url }} = prepared.data;
        await ctx.slack.post({{ channel: "{CHANNEL}", text: `${{title}}: ${{url}}` }});
      }},
    }}),
  }},
}});
"""


@pytest.fixture
def doubles() -> Iterator[tuple[GithubDouble, SlackDouble]]:
    with GithubDouble() as github, SlackDouble() as slack:
        for each in (github, slack):
            each.give_token(TOKEN)
        yield github, slack


@pytest.mark.parametrize("language", Language)
async def test_each_issue_is_told_once(
    doubles: tuple[GithubDouble, SlackDouble], language: Language, tmp_path: Path
) -> None:
    """K12: what a stranger wrote as a title mentions no channel."""
    github, slack = doubles
    github.open(TOKEN, "Tea <!channel>")
    github.open(TOKEN, "Milk")
    text = PYTHON if language is Language.PYTHON else JAVASCRIPT
    connectors = [Github(github.url, allow=[HOST]), Slack(slack.url, allow=[HOST])]
    async with Host(f"sqlite:///{tmp_path}/duly.db", connectors=connectors) as host:
        for name in ("github", "slack"):
            await host.set_secret(name, "token", TOKEN)
        await host.deploy(duly.Source(language, text, "issues"), by="me", grant=True)
        await host.drain()
        rows = await host.mutations("issues-to-slack")
        assert [each.status for each in rows] == [MutationStatus.APPLIED] * 2
    said = [each["text"] for each in slack.account(TOKEN)["messages"]]
    assert [each.partition(":")[0] for each in said] == ["Tea &lt;!channel&gt;", "Milk"]
