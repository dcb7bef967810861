"""Asking a model: counted before it leaves, sent once, checked, and recorded (M2)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from duly.config import Config
from duly.connectors.model import Model
from duly.errors import (
    AuthNeeded,
    ConfigError,
    NotSent,
    PermissionDenied,
    Refused,
    Transient,
    UnknownOutcome,
)
from duly.model_settings import ModelSettings
from duly.models.asking import Models
from duly.rules.model import (
    Message,
    ModelQuestion,
    Purpose,
    Speaker,
    ask_about,
    reserve_tokens,
)
from duly.rules.redaction import Redactor
from duly.store.base import Durability
from duly.store.model import ModelDay, QuestionRow, list_days, list_questions
from tests.connectors import shop as double
from tests.models.server import KEY, ModelServer, Say, over_limit
from tests.store.exam import World

pytestmark = pytest.mark.anyio

SECRET = "correct horse battery"
SCHEMA: Any = {
    "type": "object",
    "properties": {"kind": {"enum": ["bill", "other"]}},
    "required": ["kind"],
    "additionalProperties": False,
}


class Clock:
    """An Env as far as asking needs one."""

    now = 1_767_607_200_000
    number = 0

    def now_ms(self) -> int:
        return self.now

    def new_id(self, kind: str) -> str:
        self.number += 1
        return f"{kind}_{self.number:04}"


class Desk:
    """A store, a server, and the models of a host."""

    def __init__(self, world: World, server: ModelServer) -> None:
        self.world = world
        self.server = server
        self.clock = Clock()

    def models(self, **settings: Any) -> Models:
        model = Model("default", self.server.settings(**settings))
        model._vault = lambda connector, name: KEY
        env: Any = self.clock
        return Models(env, self.world.store, {"default": model}, Redactor([SECRET, KEY]))

    async def days(self) -> tuple[ModelDay, ...]:
        look = self.world.store.backend.transact
        return await look(lambda tx: list_days(tx, since=0), Durability.READ)

    async def questions(self, workflow_id: str = "") -> tuple[QuestionRow, ...]:
        look = self.world.store.backend.transact
        return await look(lambda tx: list_questions(tx, workflow_id, limit=50), Durability.READ)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ModelServer]:
    with ModelServer(tmp_path) as made:
        yield made


@pytest.fixture
async def desk(tmp_path: Path, server: ModelServer) -> AsyncIterator[Desk]:
    world = await World(tmp_path / "world").open()
    yield Desk(world, server)
    await world.close()


def question(text: str = "Please pay", **more: Any) -> ModelQuestion:
    return ModelQuestion(Purpose.LLM, "Say what it is.", ask_about(text), **more)


@pytest.mark.parametrize("api", ["openai", "anthropic"])
async def test_a_question_and_its_answer_on_both_wires(desk: Desk, api: str) -> None:
    """M2: it is sent once with its key, and counted with what it took."""
    desk.server.script('{"kind": "bill"}')
    models = desk.models(api=api, key="key", price_in=3, price_out=15)
    found = await models.ask(question(schema=SCHEMA, workflow_id="w1", run_id="r1"))
    assert (found.value, found.tokens_in, found.tokens_out) == ({"kind": "bill"}, 20, 7)
    assert found.cost == pytest.approx((20 * 3 + 7 * 15) / 1e6)
    (heard,) = desk.server.heard_all
    assert heard.text == '{"text":"Please pay"}'
    assert heard.system.startswith("Say what it is.")
    assert "tools" not in heard.body
    assert KEY in (heard.headers.get("x-api-key", ""), heard.headers.get("authorization", "")[7:])
    (day,) = await desk.days()
    assert (day.workflow_id, day.calls, day.reserved) == ("w1", 1, 0)
    assert (day.tokens_in, day.tokens_out) == (20, 7)
    (row,) = await desk.questions("w1")
    assert (row.status, row.answer, row.run_id) == ("answered", '{"kind":"bill"}', "r1")
    assert row.question.startswith('{"text":"Please pay"}')


@pytest.mark.parametrize("api", ["openai", "anthropic"])
async def test_what_goes_wrong_is_an_error_and_stays_counted(desk: Desk, api: str) -> None:
    """M2: a lost answer keeps its reservation, a refusal by status took nothing."""
    desk.server.script("a", Say("a", "length"), Say("no", "refusal"), "b")
    models = desk.models(api=api, timeout_s=5)
    desk.server.next(double.cut_after, over_limit(20), double.half, double.status(503))
    for wrong, after_s in (
        (UnknownOutcome, None),
        (Transient, 20),
        (UnknownOutcome, None),
        (Transient, None),
    ):
        with pytest.raises(wrong) as raised:
            await models.ask(question())
        assert getattr(raised.value, "retry_after_s", None) == after_s
    for code in ("model_cut", "model_refused"):
        with pytest.raises(Refused) as refused:
            await models.ask(question())
        assert refused.value.code == code
    assert desk.server.connections == 6
    (day,) = await desk.days()
    rows = await desk.questions()
    assert day.calls == len(rows) == 6
    assert day.reserved == sum(each.reserved for each in rows)
    assert [each.reserved > 0 for each in reversed(rows)] == [True, False, True, True, True, True]


@pytest.mark.parametrize("api", ["openai", "anthropic"])
@pytest.mark.parametrize("manner", [double.late, double.drip], ids=["late", "drip"])
async def test_a_slow_model_is_given_up_and_stays_counted(
    desk: Desk, api: str, manner: double.Manner
) -> None:
    """M2: one that never answers, and one that answers a byte at a time; the next one works."""
    desk.server.script("lost", "found")
    desk.server.next(manner)
    with pytest.raises((UnknownOutcome, Transient)):
        await desk.models(api=api, timeout_s=0.3).ask(question())
    (day,) = await desk.days()
    assert day.calls == 1
    assert day.reserved > 0
    found = await desk.models(api=api).ask(question("again"))
    assert (found.text, len(desk.server.heard_all)) == ("found", 2)


async def test_a_question_that_did_not_leave_is_counted_all_the_same(desk: Desk) -> None:
    """M2: a call too many is never the error; its tokens are free again."""
    models = desk.models(key="key")
    models._models["default"]._vault = None
    with pytest.raises(AuthNeeded, match="model_default has no secret"):
        await models.ask(question())
    gone = Model("default", ModelSettings(url="http://127.0.0.1:1/v1", model="m"))
    env: Any = desk.clock
    with pytest.raises(NotSent):
        await Models(env, desk.world.store, {"default": gone}, Redactor()).ask(question())
    (day,) = await desk.days()
    assert (day.calls, day.reserved, desk.server.connections) == (2, 0, 0)


@pytest.mark.parametrize("tokens", [(0, 0), (20, 0), (0, 7), (-20, -7), (10**10, 7), None])
async def test_a_service_that_does_not_count_costs_what_was_reserved(
    desk: Desk, tokens: tuple[int, int] | None
) -> None:
    """M2: no text takes no tokens; else a budget would never be used up."""
    reserved = reserve_tokens(question(), desk.server.settings(max_tokens=50))
    models = desk.models(max_tokens=50, tokens_per_day=2 * reserved)
    desk.server.script(*(Say("a", tokens=tokens) for _ in range(3)))
    for _ in range(2):
        await models.ask(question())
    with pytest.raises(PermissionDenied) as raised:
        await models.ask(question())
    assert raised.value.code == "model_tokens_used"
    (day,) = await desk.days()
    assert (day.tokens_in, day.tokens_out) == (0, 0)


async def test_past_the_budget_nothing_leaves(desk: Desk) -> None:
    """M2: calls and tokens of a day, for each workflow; the next day begins anew."""
    desk.server.script("a", "b", "c", "d")
    models = desk.models(calls_per_day=2)
    for _ in range(2):
        await models.ask(question(workflow_id="w1"))
    with pytest.raises(PermissionDenied, match="asked 2 times today") as raised:
        await models.ask(question(workflow_id="w1"))
    assert raised.value.code == "model_calls_used"
    await models.ask(question(workflow_id="w2"))
    desk.clock.now += 86_400_000
    await models.ask(question(workflow_id="w1"))
    narrow = desk.models(tokens_per_day=100, max_tokens=50)
    with pytest.raises(PermissionDenied, match="can take") as raised:
        await narrow.ask(question(workflow_id="w3"))
    assert raised.value.code == "model_tokens_used"
    assert desk.server.connections == 4
    assert len(await desk.questions("w3")) == 0


async def test_an_answer_that_does_not_fit_is_asked_for_once_more(desk: Desk) -> None:
    """M3: the check is ours; each further question is counted, and there is one."""
    desk.server.script("Sure! Here it is.", '```json\n{"kind": "bill"}\n```')
    models = desk.models()
    found = await models.ask(question(schema=SCHEMA))
    assert found.value == {"kind": "bill"}
    assert [each[0] for each in desk.server.heard_all[1].messages] == ["user", "assistant", "user"]
    desk.server.script('{"kind": "mine", "to": "x@y.z"}', '{"kind": "other", "to": "x@y.z"}')
    with pytest.raises(Refused) as refused:
        await models.ask(question(schema=SCHEMA))
    assert refused.value.code == "model_misfit"
    assert refused.value.facts == {"where": "answer.to: additionalProperties"}
    (day,) = await desk.days()
    assert (day.calls, desk.server.surplus) == (4, 0)


async def test_a_chain_is_answered_from_the_record(desk: Desk) -> None:
    """M3: the same question of the same chain is asked once; another chain asks anew."""
    desk.server.script("first", "second", "third")
    models = desk.models()
    one = await models.ask(question(chain="r1"))
    again = await models.ask(question(chain="r1"))
    assert (one.text, again.text, again.is_recorded) == ("first", "first", True)
    assert (await models.ask(question("else", chain="r1"))).text == "second"
    assert (await models.ask(question(chain="r2"))).text == "third"
    assert desk.server.connections == 3


async def test_a_correction_that_is_lost_costs_one_question_more(desk: Desk) -> None:
    """M2, M3: the answer that did not fit is recorded, so only the correction is asked again."""
    desk.server.script(f"Sure! {SECRET}\0", '{"kind": "bill"}', *"abcd")
    models = desk.models(timeout_s=5)
    desk.server.next(double.well, double.cut_after)
    with pytest.raises(UnknownOutcome):
        await models.ask(question(schema=SCHEMA, chain="r1"))
    assert (await models.ask(question(schema=SCHEMA, chain="r1"))).value == {"kind": "bill"}
    first, last = desk.server.heard_all
    assert [who for who, _ in last.messages] == ["user", "assistant", "user"]
    assert last.messages[0] == first.messages[0]
    assert SECRET not in str(last.body)
    assert [(each.status, each.fault) for each in await desk.questions()] == [
        ("answered", None),
        ("failed", "unknown_outcome"),
        ("answered", "model_misfit"),
    ]
    assert (await desk.questions())[-1].answer == "Sure! [redacted]\ufffd"
    for heard in (4, 6):  # two answers that do not fit end it, and a retry begins anew
        with pytest.raises(Refused):
            await models.ask(question("else", schema=SCHEMA, chain="r1"))
        assert len(desk.server.heard_all) == heard


async def test_no_secret_goes_out_or_is_kept(desk: Desk) -> None:
    """A5, M2: neither in the question nor in the answer, nor in the record."""
    desk.server.script(lambda heard: f"it said {SECRET}")
    found = await desk.models().ask(question(f"the password is {SECRET}"))
    assert SECRET not in found.text
    assert SECRET not in str(desk.server.heard_all[0].body)
    assert SECRET not in str(await desk.questions())


async def test_a_question_has_a_size(desk: Desk) -> None:
    """N: one past the limit is refused and not counted."""
    with pytest.raises(Refused, match="longer than"):
        await desk.models().ask(question("x" * (1024 * 1024 + 1)))
    said = tuple(Message(Speaker.USER, "x") for _ in range(41))
    with pytest.raises(Refused, match="longer than"):
        await desk.models().ask(ModelQuestion(Purpose.WRITE, "", said))
    assert await desk.days() == ()


async def test_without_a_model_it_says_how_to_set_one(desk: Desk) -> None:
    """M10: no model is there by default."""
    env: Any = desk.clock
    with pytest.raises(Refused, match="No model is set for llm"):
        await Models(env, desk.world.store, {}, Redactor()).ask(question())
    with pytest.raises(Refused, match="No model is set for small"):
        await desk.models().ask(question(model="small"))
    assert Config().models == {}


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({}, "blank"),
        ({"url": "http://x", "model": "m", "api": "telepathy"}, "not_one_of"),
        ({"url": "http://x", "model": "m", "max_tokens": 0}, "out_of_range"),
        ({"url": "http://x", "model": "m", "timeout_s": 281}, "out_of_range"),
        ({"url": "http://x", "model": "m", "price_in": -1}, "wrong_number"),
    ],
)
def test_settings_of_a_model_are_checked(wrong: Any, code: str) -> None:
    """N: a value out of range cannot be built."""
    with pytest.raises(ConfigError) as raised:
        ModelSettings(**wrong)
    assert raised.value.code == code


def test_a_key_does_not_travel_in_the_clear() -> None:
    """K4: only to this machine, or to a host that is allowed by name."""
    with pytest.raises(ConfigError, match="without TLS"):
        Model("default", ModelSettings(url="http://models.example/v1", model="m", key="key"))
