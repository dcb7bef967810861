"""Deploy, with real sandboxes: what is refused, what is stored, and which version comes of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

import duly
from duly.config import Limits, Policy, WorkflowPolicy
from duly.desk.base import Desk
from duly.desk.deploy import next_version, read_findings
from duly.errors import Invalid, NotDeployed, NotFound, RequestRefused, ScriptError
from duly.host import Host
from duly.rules import declaration
from duly.rules.source import Language, Source
from duly.rules.value import decode
from duly.script.finding import Severity
from duly.store import Store
from tests.desk.stand import StillEngine

LIMITS = Limits(load_s=1, source_bytes=5000)

PYTHON = """\
from duly import workflow

flow = workflow("{name}", topics={{"mail": {{"ingress": True}}, "row": {{}}}})


@flow.producer(every="{every}")
async def poll(ctx, state):
    for mail in (await ctx.mail.search(query="new"))["items"]:
        await ctx.publish("mail", message_id=mail["id"], title=f"Mail {{mail['id']}}", payload=mail)


@flow.consumer("mail")
class file:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("mail", limit=1)
        if not pending:
            return {{"reservations": [], "data": {{}}}}
        mail = pending[0]
        return {{
            "reservations": [{{"topic": "mail", "ids": [mail["message_id"]]}}],
            "data": mail["payload"],
            "ui": {{"title": f"Add a row for {{mail['title']}}"}},
        }}

    async def mutate(self, ctx, prepared):
        await ctx.sheets.append_row(values=[prepared["data"]])
"""
JAVASCRIPT = """\
export default Keep.workflow({{
  name: "{name}",
  topics: ["mail"],
  producers: {{
    poll: {{
      schedule: {{ interval: "{every}" }},
      handler: async (ctx) => {{
        const mails = await ctx.mail.search({{ query: "new" }});
        for (const mail of mails) {{
          await ctx.publish("mail", {{ messageId: mail.id, title: `Mail ${{mail.id}}` }});
        }}
      }},
    }},
  }},
}});
"""
# An event without a stable name is a warning, and no more than that unless a caller is strict.
CARELESS = """\
from duly import workflow

flow = workflow("{name}", topics=["mail"])


@flow.producer(every="5m")
async def poll(ctx, state):
    await ctx.publish("mail", title="Mail", payload={{"at": state}})
"""


class Mail(duly.Connector):
    name = "mail"

    @duly.read
    async def search(self, query: str = "") -> duly.Page:
        return duly.Page([])

    @duly.read(by_id=True)
    async def get(self, id: str) -> dict[str, Any]:  # noqa: A002  # what services call it
        return {}


class Sheets(duly.Connector):
    name = "sheets"

    @duly.mutation(capability="sheets.append")
    async def append_row(self, call: duly.Call, values: list[Any]) -> dict[str, Any]:
        return {}


def python(name: str, *, every: str = "5m", text: str = PYTHON) -> Source:
    return Source(Language.PYTHON, text.format(name=name, every=every))


@pytest.fixture(scope="module")
async def host(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Host]:
    """One host for all; every test deploys under a name of its own."""
    policy = Policy(limits=LIMITS, workflows={"lenient": WorkflowPolicy(mutate_reads="by_id")})
    path = tmp_path_factory.mktemp("host") / "duly.db"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("duly.host.Engine", StillEngine)
        async with Host(
            f"sqlite:///{path}", connectors=[Mail(), Sheets()], policy=policy
        ) as opened:
            yield opened


def desk_of(host: Host) -> Desk:
    return host._desk()


def store_of(host: Host) -> Store:
    return desk_of(host).parts.store


async def find(host: Host, name: str) -> str:
    found = await store_of(host).find_workflow(name)
    assert found is not None
    return found.id


# -- What is stored -----------------------------------------------------------------------------


async def test_every_deploy_is_a_new_major_version(host: Host) -> None:
    """W8: also of the same text; the old ones stay, with their authors."""
    for by, number in (("anna", "1.0"), ("ben", "2.0"), ("ben", "3.0")):
        deployed = await host.deploy(python("again"), by=by)
        assert (deployed.workflow, deployed.version) == ("again", number)
    rows = await store_of(host).list_versions(await find(host, "again"))
    assert {(each.version, each.author) for each in rows} == (
        {("1.0", "anna"), ("2.0", "ben"), ("3.0", "ben")}
    )
    assert {each.source for each in rows} == {python("again").text}
    assert (await host.workflow("again")).version == "3.0"


def test_a_repair_is_followed_by_the_next_major_version() -> None:
    """W8: a person's version counts on from the major number alone."""
    assert [next_version(each) for each in (None, "1.0", "9.3", "10.0")] == (
        ["1.0", "2.0", "10.0", "11.0"]
    )


async def test_what_was_extracted_is_what_is_stored(host: Host) -> None:
    """W7: declaration, handlers and topics, so that the script is never asked again."""
    source = python("extracted")
    await host.deploy(source)
    workflow_id = await find(host, "extracted")
    version = await store_of(host).get_version(workflow_id, "1.0")
    loaded = await desk_of(host).parts.sandbox.load(source, desk_of(host).parts.outside.catalog)
    assert declaration.parse(decode(version.declaration)) == loaded.declaration
    assert (version.language, version.hash) == ("python", source.hash)
    handlers = await store_of(host).list_handlers(workflow_id)
    assert [(each.name, each.kind, each.schedule) for each in handlers] == [
        ("poll", "producer", '{"interval":"300s"}'),
        ("file", "consumer", None),
    ]
    topics = await store_of(host).list_topics(workflow_id)
    assert [(each.name, each.consumer, each.ingress) for each in topics] == [
        ("mail", "file", 1),
        ("row", None, 0),
    ]


async def test_the_act_says_who_deployed_and_which_tools_are_used(host: Host) -> None:
    """A6, W7: the record of a deploy names version, tools, grants and what is missing."""
    await host.deploy(python("recorded"), by="anna")
    (action,) = await store_of(host).list_actions(await find(host, "recorded"))
    assert (action.by, action.verb, action.target) == ("anna", "deploy", "1.0")
    assert decode(cast(str, action.detail)) == {
        "tools": {
            "poll.produce": ["mail.search"],
            "file.prepare": [],
            "file.mutate": ["sheets.append_row"],
        },
        "granted": [],
        "missing": ["mail.read", "sheets.append"],
    }


async def test_an_unchanged_schedule_keeps_its_time_and_a_changed_one_is_due(host: Host) -> None:
    """W9: what deploy writes of a schedule can be compared with what it wrote before."""
    store = store_of(host)
    await host.deploy(python("timed"))
    workflow_id = await find(host, "timed")

    async def next_run_at() -> int | None:
        return (await store.list_handlers(workflow_id))[0].next_run_at

    first = await next_run_at()
    await host.deploy(python("timed"))
    assert await next_run_at() == first
    assert first is not None
    while desk_of(host).now_ms <= first:
        await desk_of(host).parts.env.sleep(0.001)
    await host.deploy(python("timed", every="6m"))
    later = await next_run_at()
    assert later is not None
    assert later > first


async def test_javascript_is_deployed_like_python(host: Host) -> None:
    """W1: the same name is the same workflow, whatever it is written in."""
    await host.deploy(python("bilingual"))
    source = Source(Language.JAVASCRIPT, JAVASCRIPT.format(name="bilingual", every="1h"))
    deployed = await host.deploy(source)
    assert (deployed.version, deployed.missing) == ("2.0", ("mail.read",))
    assert [each.every_s for each in (await host.workflow("bilingual")).schedule] == [3600]


async def test_the_engine_looks_at_what_was_deployed(host: Host) -> None:
    """S4: nobody waits for a poll."""
    await host.deploy(python("woken"))
    engine = cast(StillEngine, desk_of(host).engine)
    assert engine.woken[-1] == await find(host, "woken")


# -- Grants -------------------------------------------------------------------------------------


async def test_a_deploy_lists_what_is_not_granted_yet(host: Host) -> None:
    """A2: it is active all the same, and waits at the first such call."""
    deployed = await host.deploy(python("ungranted"))
    assert deployed.missing == ("mail.read", "sheets.append")
    told, *_ = await host.bus.journal("workflow.deployed")
    assert told.payload is not None
    assert told.payload["missing"] == ["mail.read", "sheets.append"]
    assert (await host.workflow("ungranted")).version == "1.0"
    assert await store_of(host).list_grants(await find(host, "ungranted")) == ()


async def test_a_deploy_may_grant_what_it_uses(host: Host) -> None:
    """A2: and then nothing is missing, this time and the next."""
    assert (await host.deploy(python("granted"), by="anna", grant=True)).missing == ()
    assert (await host.deploy(python("granted"))).missing == ()
    grants = await store_of(host).list_grants(await find(host, "granted"))
    assert [(each.capability, each.granted_by) for each in grants] == [
        ("mail.read", "anna"),
        ("sheets.append", "anna"),
    ]


async def test_granting_with_a_deploy_keeps_the_limits_of_an_earlier_grant(host: Host) -> None:
    """A1, A2: what a person limited is not widened by the way."""
    await host.deploy(python("limited"))
    workflow_id = await find(host, "limited")
    store, desk = store_of(host), desk_of(host)
    await store.grant(
        workflow_id,
        "sheets.append",
        mutations_per_day=3,
        action=desk.action("anna", "grant"),
        now=desk.now_ms,
    )
    await host.deploy(python("limited"), grant=True)
    limits = {
        each.capability: each.mutations_per_day for each in await store.list_grants(workflow_id)
    }
    assert limits == {"sheets.append": 3, "mail.read": None}


async def test_a_text_that_is_active_already_makes_a_version_only_if_it_is_wanted_again(
    host: Host,
) -> None:
    """W8, A2: it is granted what it lacks, and what a person limited keeps its limit."""
    first = await host.deploy(python("same"), again=False)
    assert (first.version, first.new) == ("1.0", True)
    same = await host.deploy(python("same"), again=False)
    assert (same.version, same.new) == ("1.0", False)
    assert same.missing == first.missing == ("mail.read", "sheets.append")
    await host.grant("same", "sheets.append", mutations_per_day=3)
    granted = await host.deploy(python("same"), by="anna", again=False, grant=True)
    assert (granted.version, granted.missing, granted.new) == ("1.0", (), False)
    held = await store_of(host).list_grants(await find(host, "same"))
    assert {each.capability: each.mutations_per_day for each in held} == {
        "mail.read": None,
        "sheets.append": 3,
    }
    newest, before = (await host.actions("same"))[:2]
    assert (newest.by, newest.verb, newest.target) == ("anna", "grant", "mail.read")
    assert newest.detail == {**cast("Any", before.detail), "mutations_per_day": None}
    assert (await host.deploy(python("same"))).version == "2.0"
    assert (await host.deploy(python("same", every="7m"), again=False)).version == "3.0"


async def test_what_was_let_in_is_not_refused_where_it_stays(host: Host) -> None:
    """W5, W8: strict is about what is to come; another text with a warning is refused."""
    await host.deploy(python("let-in", text=CARELESS))
    same = await host.deploy(python("let-in", text=CARELESS), strict=True, again=False)
    assert (same.version, same.new) == ("1.0", False)
    assert same.findings
    other = python("let-in", text=CARELESS + "\n")
    with pytest.raises(NotDeployed):
        await host.deploy(other, strict=True, again=False)
    assert (await host.workflow("let-in")).version == "1.0"


# -- Findings and refusals ----------------------------------------------------------------------


async def test_a_warning_is_stored_with_the_version(host: Host) -> None:
    """W5: it is answered, kept, and shown with the workflow."""
    deployed = await host.deploy(python("careless", text=CARELESS))
    assert {each.rule for each in deployed.findings} >= {"constant-title", "missing-message-id"}
    assert {each.severity for each in deployed.findings} == {Severity.WARNS}
    version = await store_of(host).get_version(await find(host, "careless"), "1.0")
    assert read_findings(version.findings) == deployed.findings
    assert (await host.workflow("careless")).findings == deployed.findings


async def test_a_warning_refuses_where_the_caller_is_strict(host: Host) -> None:
    """W5: and nothing is stored."""
    with pytest.raises(NotDeployed, match="nothing was stored") as refused:
        await host.deploy(python("strict", text=CARELESS), strict=True)
    assert "constant-title" in {getattr(each, "rule", None) for each in refused.value.findings}
    assert await store_of(host).find_workflow("strict") is None


REFUSED = [
    ("python", "flow = [", "never closed"),
    ("python", "x = 1", "declares 0 workflows"),
    ("python", "raise ValueError('oh')", "source:1:7: ValueError: oh."),
    ("python", "while True: pass", "longer than 1 s"),
    ("python", "from duly import workflow\nworkflow('bad', topics=[])", "has no handler"),
    ("python", "import socket\nimport uuid", "source:2:1: Scripts have no module uuid"),
    ("python", "x" * 5001, "longer than 5000 bytes"),
    ("javascript", "const x = [", "not JavaScript"),
    ("javascript", "const x = 1;", "declares no workflow"),
    ("javascript", "throw new Error('oh')", "oh"),
    ("javascript", "for (;;) {}", "longer than 1 s"),
    ("javascript", "export default Keep.workflow({name: 'bad'})", "has no handler"),
    (
        "javascript",
        "export default Keep.workflow({name: 'bad', producers: {p: {schedule: {interval: '5x'}}}})",
        "schedule",
    ),
    (
        "javascript",
        "export default Keep.workflow({name: 'bad', consumers: {c: {subscribe: ['b']}}})",
        "not declared",
    ),
]


@pytest.mark.parametrize(("language", "text", "words"), REFUSED)
async def test_what_loading_disproves_is_refused_with_every_reason(
    host: Host, language: str, text: str, words: str
) -> None:
    """W5, W6: the findings say why, and not a row is written."""
    before = await store_of(host).list_actions(limit=1000)
    with pytest.raises(NotDeployed) as refused:
        await host.deploy(Source(Language(language), text))
    assert words in str(refused.value)
    assert refused.value.findings
    assert await store_of(host).find_workflow("bad") is None
    assert await store_of(host).list_actions(limit=1000) == before


async def test_a_source_at_the_limit_is_taken(host: Host) -> None:
    """N: one byte less than what is refused."""
    text = python("long").text
    source = Source(Language.PYTHON, text + "#" * (5000 - len(text)))
    assert (await host.deploy(source)).version == "1.0"


async def test_the_host_answers_while_a_source_is_loaded(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W6: a source that does not end holds up nobody but its author."""
    sandbox = desk_of(host).parts.sandbox
    begun, gate = asyncio.Event(), asyncio.Event()
    load = sandbox.load

    async def slowly(*args: Any) -> object:
        begun.set()
        await gate.wait()
        return await load(*args)

    monkeypatch.setattr(sandbox, "load", slowly)
    looping = asyncio.create_task(host.deploy(Source(Language.JAVASCRIPT, "for (;;) {}")))
    await begun.wait()
    await host.workflows()
    assert not looping.done()
    gate.set()
    with pytest.raises(NotDeployed, match="longer than 1 s"):
        await looping


async def test_a_lost_worker_is_not_the_sources_fault(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F1: the author is told to deploy again, not to correct anything."""

    async def lose(*_: object) -> None:
        raise ScriptError("gone", is_lost=True)

    monkeypatch.setattr(desk_of(host).parts.sandbox, "load", lose)
    with pytest.raises(RequestRefused, match="Deploy it again"):
        await host.deploy(python("lost"))


async def test_the_workflows_policy_decides_what_mutate_may_read(host: Host) -> None:
    """C2: the check uses the variant the policy sets for this workflow."""
    text = PYTHON.replace(
        "        await ctx.sheets", "        await ctx.mail.get(id='1')\n        await ctx.sheets"
    )
    strict = await host.deploy(python("severe", text=text))
    lenient = await host.deploy(python("lenient", text=text))
    assert "forbidden-call" in {each.rule for each in strict.findings}
    assert "forbidden-call" not in {each.rule for each in lenient.findings}


async def test_of_two_deploys_at_once_the_second_must_look_again(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W8: nobody replaces a version that came while their own was being checked."""
    await host.deploy(python("raced"))
    store = store_of(host)
    find_workflow = store.find_workflow
    others = [python("raced", every="7m")]

    async def overtaken(name: str) -> object:
        found = await find_workflow(name)
        if others:
            await host.deploy(others.pop())
        return found

    monkeypatch.setattr(store, "find_workflow", overtaken)
    with pytest.raises(RequestRefused, match=r'"raced" at the same moment.*deploy again'):
        await host.deploy(python("raced", every="9m"))
    assert [each.every_s for each in (await host.workflow("raced")).schedule] == [420]
    assert (await host.workflow("raced")).version == "2.0"


# -- Where a source comes from ------------------------------------------------------------------


@pytest.mark.parametrize("kind", [str, Path])
async def test_a_path_is_read_and_its_ending_says_the_language(
    host: Host, tmp_path: Path, kind: type[str] | type[Path]
) -> None:
    """W1: findings are named after the file, not after the folder it lay in."""
    path = tmp_path / "careful.py"
    path.write_bytes(b"\xef\xbb\xbf" + python("read", text=CARELESS).text.encode())
    deployed = await host.deploy(kind(path))
    assert {each.file for each in deployed.findings} == {"careful.py"}
    version = await store_of(host).get_version(await find(host, "read"), deployed.version)
    assert version.source == python("read", text=CARELESS).text


async def test_a_path_that_is_no_source_is_refused(host: Host, tmp_path: Path) -> None:
    """W5: with what to give instead."""
    for name, content in (("binary.py", b"\xff\xfe"), ("long.js", b"x" * 5001), ("notes.txt", b"")):
        (tmp_path / name).write_bytes(content)
    refusals: list[tuple[Any, str]] = [
        (tmp_path / "missing.py", "cannot be read"),
        (tmp_path / "binary.py", "cannot be read"),
        (tmp_path / "long.js", "longer than 5000 bytes"),
        (tmp_path / "notes.txt", "does not say in which language"),
        ("from duly import workflow\n", "duly.Source"),
        (b"bytes", "duly.Source"),
    ]
    for given, words in refusals:
        with pytest.raises(Invalid, match=words):
            await host.deploy(given)
    with pytest.raises(NotFound):
        await host.workflow("notes")


async def test_whoever_deploys_says_who_they_are(host: Host) -> None:
    """A6: and that is checked before anything is loaded."""
    with pytest.raises(Invalid, match="by must be"):
        await host.deploy(Source(Language.PYTHON, "while True: pass"), by="")
