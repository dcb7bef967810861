"""Deploys that would do everything again because of another name: refused without a word (W9)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import duly
from duly.config import Policy, WorkflowPolicy
from duly.host import Host
from duly.testing import Stage

TEXT = """\
from duly import workflow

flow = workflow("mails", topics=["mail", "done"])


@flow.producer(every="5m")
async def poll(ctx, state):
    page = await ctx.gmail.search(after=(state or {}).get("cursor"))
    for mail in page["items"]:
        title = f'Mail {mail["subject"]}'
        await ctx.publish("mail", message_id=mail["id"], title=title, payload=mail)
    return {"cursor": page["last_cursor"]}


@flow.consumer("mail")
class file:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("mail", limit=1)
        ids = [each["message_id"] for each in pending]
        return {"reservations": [{"topic": "mail", "ids": ids}], "ui": {"title": "Add a row"}}

    async def mutate(self, ctx, prepared):
        await ctx.sheets.append_row(spreadsheet_id="S", values=["x"])

    async def next(self, ctx, prepared, result, state):
        for each in prepared["reservations"]:
            message_id = each["ids"][0]
            await ctx.publish("done", message_id=message_id, title=f"Done {message_id}")
"""
PRODUCER = TEXT.replace("def poll", "def fetch")
TOPIC = TEXT.replace('"mail"', '"post"')
BOTH = TOPIC.replace("def poll", "def fetch")
WORKFLOW = TEXT.replace('workflow("mails"', 'workflow("mails 2"')
OUTPUT = TEXT.replace('"done"', '"told"')
MAILS = 3


async def begun(duly_world: Stage) -> Host:
    """A host that has filed every mail there is."""
    duly_world.mailbox(MAILS)
    duly_world.sheet()
    policy = Policy(workflows={"mails": WorkflowPolicy(mutate_reads="by_id")})
    host = await duly_world.host(policy=policy)
    await deploy(host, TEXT)
    await host.drain()
    assert duly_world.count() == MAILS
    return host


async def deploy(host: Host, text: str, **how: Any) -> duly.Deployed:
    source = duly.Source("python", text, "mails.py", "/flows/mails.py")
    return await host.deploy(source, by="me", grant=True, **how)


def rules_of(findings: Any) -> list[str]:
    return [each.rule for each in findings]


@pytest.mark.parametrize(
    ("text", "rules", "said"),
    [
        (PRODUCER, ["renamed-producer"], "“poll” has a state and is dropped, and “fetch” begins"),
        (TOPIC, ["renamed-topic"], "“mail” has events and is dropped, and “post” begins empty"),
        (BOTH, ["renamed-producer", "renamed-topic"], "in a new topic is done again"),
        (WORKFLOW, ["renamed-workflow"], "The policy of “mails” does not hold for it."),
    ],
)
async def test_a_rename_needs_a_word_of_consent(
    duly_world: Stage, text: str, rules: list[str], said: str
) -> None:
    """W9: it says what is done again; with replay it is, and the finding stays with the version."""
    host = await begun(duly_world)
    for strict in (False, True):
        with pytest.raises(duly.NotDeployed, match=said) as refused:
            await deploy(host, text, strict=strict, again=strict)
        assert rules_of(refused.value.findings) == rules
    assert [(each.name, each.version) for each in await host.workflows()] == [("mails", "1.0")]
    await host.drain()
    assert duly_world.count() == MAILS
    deployed = await deploy(host, text, replay=True, strict=True)
    assert rules_of(deployed.findings) == rules
    (active,) = [each for each in await host.versions(deployed.workflow) if each.active]
    assert rules_of(active.findings) == rules
    async with host.running():
        await duly_world.advance("10m")
    # A cursor, or a topic that knows its events, is enough; without both everything is done again.
    assert duly_world.count() == (2 * MAILS if text in (BOTH, WORKFLOW) else MAILS)


@pytest.mark.parametrize(
    "text",
    [
        TEXT + "# another text\n",
        OUTPUT,
        TEXT.replace("class file", "class add"),
        TEXT + '\n\n@flow.producer(every="1d")\nasync def more(ctx, state):\n    pass\n',
    ],
    ids=["unchanged names", "a topic nobody consumes", "a consumer", "one more producer"],
)
async def test_what_does_nothing_again_needs_none(duly_world: Stage, text: str) -> None:
    """W9: state and events stay with the names that are still there."""
    host = await begun(duly_world)
    assert (await deploy(host, text)).findings == ()
    async with host.running():
        await duly_world.advance("10m")
    assert duly_world.count() == MAILS


async def test_a_name_that_comes_back_goes_on_from_its_own_history(
    duly_world: Stage,
) -> None:
    """W9, W8: an orphan has kept its state; a rollback names what it brings back."""
    host = await begun(duly_world)
    await deploy(host, PRODUCER, replay=True)
    await host.drain()
    assert (await deploy(host, TEXT)).findings == ()
    rolled = await host.rollback("mails", "2.0", by="me")
    assert rolled.version == "4.0"
    await host.drain()
    assert duly_world.count() == MAILS


async def test_a_file_is_known_by_where_it_lies(duly_world: Stage, tmp_path: Path) -> None:
    """W9: another file, a text without one, and a workflow that was removed are no renames."""
    host = await begun(duly_world)
    other = tmp_path / "mails.py"
    other.write_text(WORKFLOW)
    assert (await host.deploy(other, by="me")).findings == ()
    other.write_text(WORKFLOW.replace("mails 2", "mails 3"))
    with pytest.raises(duly.NotDeployed, match="declared “mails 2”, which is active"):
        await host.deploy(str(other), by="me")
    text = duly.Source("python", WORKFLOW.replace("mails 2", "mails 4"))
    assert (await host.deploy(text, by="me")).findings == ()
    await host.remove("mails 2", by="me")
    assert (await host.deploy(other, by="me")).workflow == "mails 3"
