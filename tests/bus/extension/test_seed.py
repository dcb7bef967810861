"""Extensions as the first document of the bus writes them: they run as they stand (B9)."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from duly.bus.publisher import is_async
from duly.errors import Invalid, RequestRefused
from duly.rules.delivery import WIRED_BEFORE, Event, place_of
from duly.rules.manifest import BuiltIn, check
from duly.testing import Stage as World
from tests.bus.extension import stand
from tests.bus.extension.stand import AGENT, ECHO, KEEPS, Shelf, User, errors, stages
from tests.bus.stand import ONCE, listen, say

# A class of its own, without a base class, as the document shows it.
CHECKIN = """
class Main:
    async def initialize(self, context):
        self._ctx = context
        self._ctx.subscribe_event("checkin.started", self._on_checkin)

    async def _on_checkin(self, event):
        step = event.payload.get("step", 1)
        total = event.payload.get("total", 3)
        if step < total:
            await self._ctx.schedule_at(8, "checkin.started", {"step": step + 1, "total": total})
"""


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    stand.contexts.clear()
    stand.heard.clear()
    return Shelf(tmp_path / "extensions")


async def test_a_class_without_a_base_class_is_an_extension(
    duly_world: World, shelf: Shelf
) -> None:
    """B9: it has `async def initialize(self, context)`, and need not have more."""
    shelf.put("checkin", CHECKIN)
    host = await duly_world.host(extensions=shelf.folder)
    assert await stages(host) == {"checkin": "ready"}
    await host.bus.emit("checkin.started", {"step": 1, "total": 3}, source="checkin_trigger")
    async with host.running():
        await duly_world.advance(20)
    steps = [each.payload["step"] for each in await host.bus.journal() if each.payload]
    assert steps == [3, 2, 1]
    await host.close()


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (
            "class Main:\n    async def answer(self, *_): pass",
            "Main is not an extension. Give its class",
        ),
        ("class Main:\n    def initialize(self, context): pass", "Main.initialize is not async"),
        ("class Main:\n    async def initialize(self): pass", "takes other arguments"),
        (
            CHECKIN + "    async def close(self, how): pass",
            "Let it take self.",
        ),
    ],
)
async def test_a_class_that_cannot_be_initialised_is_refused_with_what_to_write(
    duly_world: World, shelf: Shelf, code: str, words: str
) -> None:
    """B9: before anything of it is called."""
    shelf.put("broken", code)
    host = await duly_world.host(extensions=shelf.folder)
    assert await stages(host) == {"broken": "create"}
    assert words in (await errors(host))["broken"]


# -- Agents ---------------------------------------------------------------------------------------


def manifest(**more: Any) -> dict[str, Any]:
    return {"id": "a", "name": "A", "version": "1.0", **more}


def test_a_subscription_without_a_handler_is_the_code_s_own() -> None:
    """B9: custom, except what the user says to an agent that asks for it."""
    topics = [{"topic": "user.message"}, {"topic": "mail"}]
    events = {"subscribes": topics}
    plain = check(manifest(entrypoint="main:Main", events=events))
    assert [each.handler for each in plain.subscribes] == [BuiltIn.CUSTOM] * 2
    agent = check(manifest(agent=AGENT, events=events))
    assert [each.handler for each in agent.subscribes] == [BuiltIn.INVOKE_AGENT, BuiltIn.CUSTOM]
    events = {"subscribes": [{"topic": "user.message", "handler": "custom"}]}
    asked = check(manifest(agent=AGENT, events=events))
    assert [each.handler for each in asked.subscribes] == [BuiltIn.CUSTOM]


def test_only_an_agent_may_be_a_manifest_alone() -> None:
    """B9: anything else has code, and says where."""
    assert check(manifest(agent=AGENT)).module is None
    with pytest.raises(Invalid, match=r"manifest\.entrypoint is missing"):
        check(manifest())


async def test_an_agent_without_code_is_answered_by_the_one_it_depends_on(
    duly_world: World, shelf: Shelf
) -> None:
    """B9, B10: and what the user says goes to the agent that declares it."""
    shelf.put("assistant", ECHO)
    place = shelf.put(
        "desk",
        depends_on=["assistant"],
        agent=AGENT,
        events={"subscribes": [{"topic": "user.message"}]},
    )
    without_code(place)
    user = User()
    host = await duly_world.host(extensions=shelf.folder, channels=[user])
    assert await stages(host) == {"assistant": "ready", "desk": "ready"}
    await host.bus.emit("user.message", {"text": "Hello"}, source="cli_channel")
    await host.drain()
    assert user.texts == ["Be brief.|small|Hello"]


async def test_an_agent_without_code_and_without_a_model_says_so(
    duly_world: World, shelf: Shelf
) -> None:
    """B9: it is not started, and its events wait for it."""
    events = {"subscribes": [{"topic": "user.message"}]}
    without_code(shelf.put("desk", agent=AGENT, events=events))
    host = await duly_world.host(extensions=shelf.folder, channels=[User()])
    assert await stages(host) == {"desk": "agent"}
    assert "no model is configured" in (await errors(host))["desk"]
    await say(host, "user.message")
    await host.drain()
    (waiting,) = await host.bus.deliveries()
    assert (waiting.subscriber_id, waiting.status) == (
        "desk:user.message:invoke_agent",
        "waiting",
    )


def without_code(place: Path) -> None:
    """Take the entrypoint and the code of an extension away."""
    path = place / "manifest.yaml"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(each for each in lines if not each.startswith("entrypoint")))
    (place / "main.py").unlink()


# -- Files ----------------------------------------------------------------------------------------


RUNS = "import sys\nsys.modules['duly_ran_outside'] = sys\n"


@pytest.mark.parametrize("part", ["main.py", "helper.py", "inner", "__pycache__"])
async def test_code_outside_of_its_folder_is_never_run(
    duly_world: World, shelf: Shelf, tmp_path: Path, part: str
) -> None:
    """B9: neither the module itself nor what it imports, nor a compiled file beside it."""
    imports = {"helper.py": "from . import helper\n", "inner": "from .inner import code\n"}
    place = shelf.put("link", imports.get(part, "") + CHECKIN)
    outside = tmp_path / "outside"
    outside.mkdir()
    if part == "__pycache__":
        compile_elsewhere(place, outside)
    else:
        name = "code.py" if part == "inner" else part
        (outside / name).write_text(RUNS + CHECKIN)
        (place / part).unlink(missing_ok=True)
        (place / part).symlink_to(outside if part == "inner" else outside / name)
    host = await duly_world.host(extensions=shelf.folder)
    assert "duly_ran_outside" not in sys.modules
    if part == "__pycache__":
        assert await stages(host) == {"link": "ready"}
    else:
        assert await stages(host) == {"link": "import"}
        assert "is outside of link; it was not run" in (await errors(host))["link"]


def compile_elsewhere(place: Path, outside: Path) -> None:
    """Put a compiled file of other code beside the module, by a link, as fresh as the module."""
    import importlib.util
    import marshal

    source = place / "main.py"
    seen = source.stat()
    head = importlib.util.MAGIC_NUMBER + (0).to_bytes(4, "little")
    head += int(seen.st_mtime).to_bytes(4, "little") + seen.st_size.to_bytes(4, "little")
    code = compile(RUNS + CHECKIN, str(source), "exec")
    cached = Path(importlib.util.cache_from_source(str(source)))
    (outside / cached.name).write_bytes(head + marshal.dumps(code))
    cached.parent.symlink_to(outside)


async def test_what_cannot_be_read_is_that_extension_s_report(
    duly_world: World, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B9: a folder, a file or a link; the host opens and the others go on."""
    shelf.put("other", CHECKIN)
    locked, file = shelf.put("locked"), shelf.put("file")
    (shelf.folder / "nowhere").symlink_to(shelf.folder / "gone")
    (shelf.folder / "round").symlink_to(shelf.folder / "round")
    shelf.put("folder")
    (shelf.folder / "folder" / "manifest.yaml").unlink()
    (shelf.folder / "folder" / "manifest.yaml").mkdir()
    look = os.stat

    def refuse(path: Any, *args: Any, **more: Any) -> os.stat_result:
        if Path(str(path)) in (locked, locked / "manifest.yaml", file / "manifest.yaml"):
            raise PermissionError(13, "Permission denied")
        return look(path, *args, **more)

    monkeypatch.setattr(os, "stat", refuse)
    host = await duly_world.host(extensions=shelf.folder)
    found = await stages(host)
    names = ("file", "folder", "locked", "nowhere", "round")
    assert found == {**dict.fromkeys(names, "manifest"), "other": "ready"}
    said = await errors(host)
    assert "Permission denied" in said["locked"]
    assert "Permission denied" in said["file"]
    assert "No such file" in said["nowhere"]


async def test_the_words_of_an_extension_are_cleaned_before_they_are_logged(
    duly_world: World, shelf: Shelf, caplog: pytest.LogCaptureFixture
) -> None:
    """B9, B7: an error cannot steer the terminal that shows a log, nor write lines of its own."""
    said = "'a\\x1b[2Jb\\nERROR duly forged\\u202e'"
    shelf.put("broken", f"raise ValueError({said})")
    shelf.put("other", "from tests.bus.extension.test_seed import Raises as Main")
    host = await duly_world.host(extensions=shelf.folder)
    await host.bus.emit("mail", {"text": "a\x1b[2Jb\nERROR duly forged\u202e"}, source="test")
    await host.drain()
    shown = caplog.text.replace("\\x1b", "").replace("\\n", "").replace("\\u202e", "")
    assert "a[2JbERROR duly forged" in shown
    assert not set("\x1b\u202e") & set(caplog.text)
    assert not [line for line in caplog.text.splitlines() if line.startswith("ERROR duly forged")]


class Raises:
    """An extension that raises what it is told."""

    async def initialize(self, context: Any) -> None:
        context.subscribe_event("mail", self.fail)

    async def fail(self, event: Event) -> None:
        raise ValueError(event.payload["text"])


# -- Subscriptions --------------------------------------------------------------------------------


class Asked:
    """An object that can be called and waited for."""

    async def __call__(self, event: Event) -> None:
        stand.heard.append(event.id)


async def test_a_handler_is_judged_when_it_subscribes(duly_world: World) -> None:
    """B3: anything that is called with an event and waited for; nothing else, and at once."""
    from functools import partial

    host = await duly_world.host()
    stand.heard.clear()

    async def nothing() -> None: ...

    async def two(event: Event, other: int) -> None: ...

    async def named(*, event: Event) -> None: ...

    async def stream(event: Event) -> Any:
        yield event

    wrongs: list[Any] = [nothing, two, named, stream, Asked, lambda _: None]
    for number, wrong in enumerate(wrongs):
        with pytest.raises(Invalid, match=r"The handler of wrong\d"):
            host.bus.subscribe("mail", wrong, subscriber_id=f"wrong{number}")
    right = (Asked(), partial(Asked()), partial(two, other=1), partial(named))
    assert [is_async(each) for each in right] == [True] * 4
    host.bus.subscribe("mail", right[0], subscriber_id="a")
    host.bus.subscribe("mail", right[1], subscriber_id="b")
    await say(host)
    await host.drain()
    assert stand.heard == [1, 1]


async def test_an_extension_chooses_its_retry(duly_world: World, shelf: Shelf) -> None:
    """B5, B9: `subscribe_event(…, retry=…)`."""
    shelf.put("greeter", KEEPS)
    host = await duly_world.host(extensions=shelf.folder)

    async def fail(event: Event) -> None:
        raise ValueError("no")

    stand.contexts["greeter"].subscribe_event("mail", fail, retry=ONCE)
    with pytest.raises(Invalid, match=r"duly\.Retry"):
        stand.contexts["greeter"].subscribe_event("mail", fail, retry=3)
    await say(host)
    await host.drain()
    (dead,) = await host.bus.deliveries(status="dead")
    assert dead.attempts == 1


async def test_an_extension_cancels_only_what_it_scheduled(duly_world: World, shelf: Shelf) -> None:
    """B9, B2: another's is refused and fires; the program that embeds the host may cancel all."""
    for name in ("one", "two"):
        shelf.put(name, KEEPS)
    host = await duly_world.host(extensions=shelf.folder)
    one, two = stand.contexts["one"], stand.contexts["two"]
    deferred_id = await one.schedule_at(60, "mail", {})
    with pytest.raises(RequestRefused, match="was not scheduled by two"):
        await two.cancel(deferred_id)
    assert await one.cancel(deferred_id)
    assert not await one.cancel(deferred_id)
    assert await host.bus.cancel(await two.schedule_at(60, "mail", {}))


async def test_a_manifest_comes_before_code_also_in_an_old_store(
    duly_world: World, shelf: Shelf
) -> None:
    """B3, B9: a subscription that a manifest gets later is called before the code's older one."""
    user = User()
    code = "from tests.bus.extension.test_seed import Writes as Main"
    shelf.put("greeter", code)
    host = await duly_world.host(extensions=shelf.folder, channels=[user])
    await host.close()
    shelf.put("greeter", code, subscribes=[("mail", "notify_user")])
    host = await duly_world.host(extensions=shelf.folder, channels=[user])
    Writes.user = user
    await say(host)
    await host.drain()
    assert stand.heard == [["hello"]]


class Writes:
    """An extension that writes down what the user has been told when it is called."""

    user = User()

    async def initialize(self, context: Any) -> None:
        context.subscribe_event("mail", self.hear)

    async def hear(self, event: Event) -> None:
        stand.heard.append(list(self.user.texts))


def test_a_place_is_kept_among_its_like() -> None:
    """B3: what a manifest asks for stands before all code, each in the order of registration."""
    places = [place_of(number, is_wired=wired) for number, wired in ((1, False), (2, True))]
    assert places == [1, 2 - WIRED_BEFORE]
    assert place_of(places[0], is_wired=True) == 1 - WIRED_BEFORE
    assert [place_of(each, is_wired=True) for each in places] == [
        1 - WIRED_BEFORE,
        2 - WIRED_BEFORE,
    ]
    assert place_of(places[1], is_wired=False) == 2


# -- Names and topics of the host -----------------------------------------------------------------


@pytest.mark.parametrize("source", ["duly", "DULY", "Duly", "du1y", "duIy"])
async def test_no_name_that_reads_like_the_host_s_can_speak(duly_world: World, source: str) -> None:
    """B1: in whatever letters."""
    host = await duly_world.host()
    with pytest.raises(RequestRefused, match="itself can emit as"):
        await host.bus.emit("mail", {}, source=source)
    with pytest.raises(RequestRefused, match="belongs to"):
        listen(host, subscriber_id=f"{source}:mail:mine")
    with pytest.raises(Invalid, match="a name that belongs to Duly"):
        check(manifest(id=source, entrypoint="main:Main") | {"id": source})


async def test_an_extension_s_name_in_other_letters_is_its_name(
    duly_world: World, shelf: Shelf
) -> None:
    """B1, B9: neither the program nor a second extension has it."""
    shelf.put("greeter", CHECKIN)
    host = await duly_world.host(extensions=shelf.folder)
    with pytest.raises(RequestRefused):
        await host.bus.emit("mail", {}, source="Greeter")
    await host.close()
    place = shelf.put("other", CHECKIN)
    text = (place / "manifest.yaml").read_text()
    (place / "manifest.yaml").write_text(text.replace("id: other", "id: Greeter"))
    host = await duly_world.host(extensions=shelf.folder)
    assert set((await stages(host)).values()) == {"manifest"}


@pytest.mark.parametrize("topic", ["workflow.needs_attention", "run.failed", "Run.Committed"])
async def test_only_the_host_speaks_on_its_topics(
    duly_world: World, shelf: Shelf, topic: str
) -> None:
    """B10: neither the program nor an extension, neither now nor later."""
    shelf.put("greeter", KEEPS)
    host = await duly_world.host(extensions=shelf.folder)
    speaker = stand.contexts["greeter"]
    for said in (
        host.bus.emit(topic, {}, source="test"),
        host.bus.schedule_at(1, topic, {}, source="test"),
        speaker.emit(topic, {}),
        speaker.schedule_at(1, topic, {}),
    ):
        with pytest.raises(RequestRefused, match="Only the host itself emits on"):
            await said
    assert await host.bus.journal() == ()
