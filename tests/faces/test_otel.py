"""Traces: what a collector gets, what it never gets, and that a dead one costs a run nothing."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest

import duly
from duly import observed
from duly.api.clock import Loop
from duly.faces import otel
from duly.faces.otel import Exporter, Target, find_target, span_of, trace_of
from duly.host import Host
from duly.observed import LINKS_MAX, Span, SpanKind, observing, reserved, run_span, span
from duly.rules.source import Language
from tests.faces.otel_stand import FLOOD, Collector, collecting, facts
from tests.faces.real import call, make_project, running, wait_for
from tests.models.server import ModelServer
from tests.models.test_llm import Desk as Sorter
from tests.models.test_llm import come_in, sorting

pytestmark = pytest.mark.anyio
FLOW = """
from duly import workflow

flow = workflow("mails", topics=["mail"])


@flow.producer(every="1h")
async def look(ctx, state):
    for name in await ctx.desk.search(words="private words"):
        await ctx.publish("mail", message_id=name, title="A private title", payload={"x": name})


@flow.consumer("mail")
class file:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("mail", limit=10)
        if not pending:
            return {"reservations": [], "data": {}}
        return {
            "reservations": [{"topic": "mail", "ids": [pending[0]["message_id"]]}],
            "data": pending[0]["payload"],
            "ui": {"title": "Another private title"},
        }

    async def mutate(self, ctx, prepared):
        await ctx.desk.keep(what=prepared["data"]["x"])
"""
PRIVATE = ("private", "secret-id", "secret-answer")


class Desk(duly.Connector):
    name = "desk"

    def __init__(self) -> None:
        self.kept: list[str] = []

    @duly.read
    async def search(self, words: str) -> list[str]:
        return ["secret-id"]

    @duly.mutation(risk="low")
    async def keep(self, call: duly.Call, what: str) -> dict[str, str]:
        self.kept.append(what)
        return {"secret-answer": what}


def exporter(collector: Collector) -> Exporter:
    return Exporter(Target(f"{collector.url}/v1/traces", {"x-team": "a"}, "letters"), Loop())


async def work(tmp_path: Path) -> tuple[Desk, tuple[Any, ...], str]:
    """Let a mail become a change; return the runs, oldest first, and the id of the change."""
    desk = Desk()
    async with Host(f"sqlite:///{tmp_path}/duly.db", connectors=[desk]) as host:
        await host.deploy(duly.Source(Language.PYTHON, FLOW), by="ada", grant=True)
        await host.drain()
        (mutation,) = await host.mutations("mails")
        runs = [each for each in await host.runs("mails") if each.outcome != "nothing"]
        return desk, tuple(reversed(runs)), mutation.id


async def test_a_run_is_a_trace_of_its_steps_and_calls_without_any_content(tmp_path: Path) -> None:
    """U1, A5: ids that `duly why` takes, a link to the run that published, and no private word."""
    async with collecting() as collector:
        observer = exporter(collector)
        with observing(observer):
            desk, _, mutation = await work(tmp_path)
        await observer.send_last()
    assert desk.kept == ["secret-id"]
    assert "POST /v1/traces " in collector.heads[0]
    assert "x-team: a" in collector.heads[0].lower()
    look = collector.named("run mails.look")
    search, sent = collector.named("call desk.search"), collector.named("call desk.keep")
    produce = collector.named("step produce")
    assert (produce["parentSpanId"], search["parentSpanId"]) == (look["spanId"], produce["spanId"])
    assert len({each["traceId"] for each in (look, produce, search)}) == 1
    file = next(each for each in collector.spans if each["spanId"] == sent["parentSpanId"])
    assert (file["name"], facts(file)["duly.outcome"]) == ("run mails.file", "applied")
    assert facts(sent)["duly.mutation"] == mutation
    publisher = facts(look)["duly.run"]
    (link,) = file["links"]
    assert (link["traceId"], link["spanId"]) == (look["traceId"], look["spanId"])
    assert (trace_of(publisher), span_of(publisher)) == (look["traceId"], look["spanId"])
    assert int(sent["startTimeUnixNano"]) <= int(sent["endTimeUnixNano"])
    told = json.dumps(collector.spans)
    assert [word for word in PRIVATE if word in told] == []


@pytest.mark.parametrize("status", [None, 503])
async def test_a_collector_that_hangs_or_refuses_costs_a_run_nothing(
    status: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U1: the run is over before the collector is even asked; what it does not take is counted."""
    monkeypatch.setattr(otel, "LAST_S_MAX", 0.2)
    async with collecting(status) as collector:
        observer = exporter(collector)
        with observing(observer):
            desk, _, _ = await work(tmp_path)
        assert (desk.kept, collector.heads, observer.dropped) == (["secret-id"], [], 0)
        await observer.send_last()
        assert observer.dropped > 0
        assert len(collector.heads) == 1


async def test_a_collector_that_floods_is_left_after_its_status() -> None:
    """N: its text is not read, so it fills no memory and holds no batch."""
    async with collecting() as collector:
        collector.is_flooding = True
        observer = exporter(collector)
        observer.ended(Span(SpanKind.RUN, "w.h", "run_1", 1))
        await observer.send_last()
        collector.is_flooding = False
    assert (len(collector.spans), observer.dropped) == (1, 0)
    assert collector.flooded_bytes < 100 * len(FLOOD)


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer hush\n"}])
async def test_no_collector_at_all_costs_a_line_of_the_log(
    caplog: pytest.LogCaptureFixture, headers: dict[str, str]
) -> None:
    """U1, A5: one, not one for each batch; and without what lets a person in there."""
    target = Target("http://me:hush@127.0.0.1:9/v1/traces?token=hush", headers, "letters")
    observer = Exporter(target, Loop())
    for _ in range(2):
        observer.ended(Span(SpanKind.RUN, "w.h", "run_1", 1))
        await observer.send_last()
    assert observer.dropped == 2
    (told,) = [each.message for each in caplog.records if "Traces are dropped" in each.message]
    assert "http://127.0.0.1:9/v1/traces takes none" in told
    assert "hush" not in caplog.text


def test_the_queue_is_bounded() -> None:
    """N: one past the limit is dropped."""
    observer = Exporter(Target("http://127.0.0.1:9", {}, "letters"), Loop())
    for _ in range(otel.QUEUE_MAX + 1):
        observer.ended(Span(SpanKind.RUN, "w.h", "run_1", 1))
    assert (len(observer._waiting), observer.dropped) == (otel.QUEUE_MAX, 1)


class Broken:
    def now_ms(self) -> int:
        return 1

    def ended(self, span: Span) -> None:
        raise ValueError("broken")


async def test_an_observer_that_fails_reaches_no_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """U1: it is logged."""
    with observing(Broken()):
        desk, _, _ = await work(tmp_path)
    assert desk.kept == ["secret-id"]
    assert "An observer failed" in caplog.text


def test_without_an_observer_nothing_is_made() -> None:
    """U1: every place of the engine gets the same nothing."""
    assert run_span("run_1", "w.h", {}, is_first=True) is observed._NOTHING
    assert span(SpanKind.CALL, "desk.keep") is observed._NOTHING


def test_a_run_has_so_many_links_and_not_one_more() -> None:
    """N: and each publisher once."""
    ended: list[Span] = []

    class Kept(Broken):
        def ended(self, span: Span) -> None:
            ended.append(span)

    with observing(Kept()), run_span("run_1", "w.h", {}, is_first=True), span(SpanKind.STEP, "p"):
        for number in range(LINKS_MAX + 1):
            observed.offered("t", f"{number}", f"run_{number}")
            observed.offered("t", f"{number} again", f"run_{number}")
            reserved("t", f"{number}")
            reserved("t", f"{number} again")
    assert [len(each.links) for each in ended] == [0, LINKS_MAX]
    assert ended[0].parent is ended[1]


def test_a_run_that_goes_on_later_stands_below_its_first_span() -> None:
    later = Span(SpanKind.RUN, "w.h", "run_1", 1, is_first=False, links=["ada", "run_2"])
    written = otel.write_span(later, Loop().random_bytes)
    assert written["parentSpanId"] == span_of("run_1") != written["spanId"]
    assert [each["traceId"] for each in written["links"]] == [trace_of("run_2")]


BASE = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318/"}


@pytest.mark.parametrize(
    ("endpoint", "environ", "url"),
    [
        (None, {}, None),
        ("http://a:4318", {}, "http://a:4318/v1/traces"),
        ("http://a:4318", BASE, "http://a:4318/v1/traces"),
        (None, BASE, "http://c:4318/v1/traces"),
        (None, {**BASE, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://t/x"}, "http://t/x"),
        ("http://a:4318", {"OTEL_SDK_DISABLED": "true"}, None),
    ],
)
def test_where_traces_go(endpoint: str | None, environ: dict[str, str], url: str | None) -> None:
    """U1: off unless an address is given."""
    found = find_target(endpoint, environ)
    assert (None if found is None else found.url) == url


def test_a_certificate_is_looked_at_however_the_address_is_spelled() -> None:
    """K4: a scheme is the same in capitals."""
    told = ("http://a", "HTTP://a", "https://a", "HTTPS://a", "Https://a", "a:4318")
    assert [Target(url, {}, "").is_plain for url in told] == [True, True, *[False] * 4]


def test_headers_are_read_as_the_standard_writes_them() -> None:
    found = find_target("http://a", {"OTEL_EXPORTER_OTLP_HEADERS": "a=1%202, b = x"})
    assert found is not None
    assert found.headers == {"a": "1 2", "b": "x"}


async def test_a_question_to_a_model_is_a_span_below_its_call(tmp_path: Path) -> None:
    """M2, U1: with its tokens, and without a word of question and answer."""
    sorter = Sorter()
    with ModelServer(tmp_path) as server:
        server.script('{"class": "other"}')
        async with collecting() as collector:
            observer = exporter(collector)
            with observing(observer):
                async with sorting(tmp_path, server, sorter) as host:
                    await come_in(host, "a private mail")
            await observer.send_last()
    asked, around = collector.named("model default"), collector.named("call llm.classify")
    assert asked["parentSpanId"] == around["spanId"]
    assert int(facts(asked)["gen_ai.usage.input_tokens"]) > 0
    assert "private" not in json.dumps(collector.spans)


async def test_serve_works_and_stops_beside_a_collector_that_hangs(tmp_path: Path) -> None:
    """U1: a real host, its settings, and a collector that never answers."""
    folder = make_project(tmp_path / "letters")
    settings = (folder / "duly.toml").read_text().replace('"above:low"', '"never"')
    async with collecting(None) as collector:
        (folder / "duly.toml").write_text(f'{settings}\n[otel]\nendpoint = "{collector.url}"\n')
        done = await asyncio.to_thread(call, folder, "deploy", "--grant")
        assert done.exit_code == 0, done.output
        with running(folder, "serve", "--no-page") as host:
            await asyncio.to_thread(host.until, "welcome.answer committed (applied)")
            await asyncio.to_thread(wait_for, lambda: bool(collector.heads), "a trace", host)
            host.tell(signal.SIGTERM)
            assert await asyncio.to_thread(host.end) == 0, host.said
    assert (folder / "outbox" / "ada.txt").read_text() == "Welcome, Ada!\n"
    assert "Traces go to http://127.0.0.1:" in host.said
