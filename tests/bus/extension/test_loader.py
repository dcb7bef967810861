"""A folder of extensions comes to life: in order, each by itself, and a broken one is named."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from duly.bus import code as code_module
from duly.bus import loader
from duly.bus.loader import ExtensionReport, LoadStage
from duly.errors import ConfigError, RequestRefused
from duly.host import Host
from duly.rules.delivery import Event
from duly.testing import Stage as World
from tests.bus.extension import stand
from tests.bus.extension.stand import ECHO, KEEPS, Shelf, User, errors, stages
from tests.spoken import short

HEARS = """
from tests.bus.extension.stand import heard

class Main(duly.Extension):
    async def initialize(self, context):
        heard.append((context.extension_id, "initialize"))
        context.subscribe_event("mail", self.on_mail)

    async def on_mail(self, event):
        heard.append(event.payload["text"])

    async def close(self):
        heard.append("close")
"""


def raising(where: str, what: str) -> str:
    """Write an extension that fails in one method."""
    head = "def __init__(self)" if where == "__init__" else f"async def {where}(self, *_)"
    return f"import asyncio\nclass Main(duly.Extension):\n    {head}:\n        {what}\n"


async def test_a_folder_of_extensions_is_loaded_in_the_order_of_their_needs(
    duly_world: World, shelf: Shelf
) -> None:
    """B9: a dependency is initialised before what needs it."""
    for name, needs in (("a", ["c"]), ("b", []), ("c", ["d"]), ("d", [])):
        shelf.put(name, HEARS, depends_on=needs)
    host = await duly_world.host(extensions=shelf.folder)
    assert stand.heard == [(name, "initialize") for name in ("b", "d", "c", "a")]
    assert await stages(host) == dict.fromkeys("abcd", "ready")


async def test_a_report_names_id_name_version_and_stage(duly_world: World, shelf: Shelf) -> None:
    """B9: what a person sees of an extension."""
    shelf.put("greeter", name="The greeter", version="2.1")
    host = await duly_world.host(extensions=str(shelf.folder))
    assert await host.extensions() == (
        ExtensionReport("greeter", "The greeter", "2.1", LoadStage.READY, None),
    )


async def test_two_extensions_may_both_have_a_main(duly_world: World, shelf: Shelf) -> None:
    """B9: the modules of an extension are its own, also beside another host in the process."""
    shelf.put("a", KEEPS + "\nwho = 'a'\nprint_ = __name__\n")
    shelf.put("b", KEEPS + "\nwho = 'b'\n")
    before = set(sys.modules)
    await duly_world.host(extensions=shelf.folder)
    mains = [sys.modules[name] for name in set(sys.modules) - before if name.endswith(".main")]
    assert sorted(each.who for each in mains) == ["a", "b"]


async def test_an_extension_may_be_several_files(duly_world: World, shelf: Shelf) -> None:
    """B9: a module of its folder is imported relatively, a folder of modules too."""
    place = shelf.put("a", "from .words import HELLO\n" + KEEPS, entrypoint="inner.main:Main")
    (place / "inner").mkdir()
    (place / "main.py").rename(place / "inner" / "main.py")
    (place / "inner" / "words.py").write_text("HELLO = 'hello'\n")
    host = await duly_world.host(extensions=shelf.folder)
    assert await errors(host) == {}


async def test_a_closed_host_lets_go_of_the_code(duly_world: World, shelf: Shelf) -> None:
    """B9: every ready extension is closed, the last one first, and its modules are forgotten."""
    shelf.put("a", HEARS.replace('"close"', '"close a"'))
    shelf.put("b", HEARS.replace('"close"', '"close b"'), depends_on=["a"])
    before = set(sys.modules)
    host = await duly_world.host(extensions=shelf.folder)
    assert len(set(sys.modules) - before) >= 4
    await host.close()
    assert stand.heard[-2:] == ["close b", "close a"]
    assert not [name for name in set(sys.modules) - before if name.startswith("duly_extension_")]


# -- Broken ones ----------------------------------------------------------------------------------

BROKEN: list[tuple[str, str, str]] = [
    ("x = ", "import", "SyntaxError"),
    ("raise ValueError('no')", "import", "ValueError: no (main.py, line 2)"),
    ("raise SystemExit(3)", "import", "SystemExit: 3 (main.py, line 2)"),
    ("import nobody_has_this", "import", "No module named 'nobody_has_this'"),
    ("from . import nothing_here", "import", "nothing_here"),
    ("import d", "import", "No module named 'd' (main.py, line 2)"),
    ("from .nothing import here", "import", "nothing"),
    ("class Other(duly.Extension): pass", "create", "The module main has no class Main"),
    ("Main = 7", "create", "Main is not an extension. Give its class an `async def initialize"),
    ("class Main: pass", "create", "Main is not an extension"),
    (
        "class Main(duly.Extension):\n    def initialize(self, context): pass",
        "create",
        "Main.initialize is not async",
    ),
    ("class Main(duly.Extension):\n    def close(self): pass", "create", "Main.close is not async"),
    (raising("__init__", "raise OSError('disk')"), "create", "OSError: disk (main.py, line 5)"),
    (raising("__init__", "raise SystemExit"), "create", "SystemExit"),
    ("class Main(duly.Extension):\n    def __init__(self, a): pass", "create", "TypeError"),
    (
        raising("initialize", "raise OSError('disk')"),
        "initialize",
        "OSError: disk (main.py, line 5)",
    ),
    (raising("initialize", "raise SystemExit(1)"), "initialize", "SystemExit: 1"),
    (raising("initialize", "raise KeyboardInterrupt"), "initialize", "KeyboardInterrupt"),
    (raising("initialize", "raise asyncio.CancelledError"), "initialize", "CancelledError"),
    (
        raising("initialize", "await asyncio.sleep(10**6)"),
        "initialize",
        "It took longer than 30 s. Start what takes long in a task.",
    ),
    (
        raising("initialize", "_[0].subscribe_event('mail', len)"),
        "initialize",
        "The handler len for mail is not async",
    ),
    (
        raising(
            "initialize",
            "_[0].subscribe_event('mail', type('L' * 400, (), {'__call__': Main.initialize})())",
        ),
        "initialize",
        "subscriber_id must be a text of 1 to 320 characters.",
    ),
    (
        raising("initialize", "_[0].subscribe_event('two words', self.initialize)"),
        "initialize",
        "Use 1 to 100 letters",
    ),
]


@pytest.mark.parametrize(("code", "stage", "words"), BROKEN)
async def test_a_broken_extension_is_named_with_its_stage_and_the_others_go_on(
    duly_world: World, shelf: Shelf, code: str, stage: str, words: str
) -> None:
    """B9: whatever its code does, it is nobody else's trouble but theirs who need it."""
    shelf.put("broken", code)
    shelf.put("needs-it", HEARS, depends_on=["broken"])
    shelf.put("other", HEARS)
    host = await duly_world.host(extensions=shelf.folder)
    assert await stages(host) == {"broken": stage, "needs-it": "dependencies", "other": "ready"}
    found = await errors(host)
    assert words in found["broken"]
    assert found["needs-it"] == 'It needs "broken", which is not loaded. Correct that one first.'
    await host.bus.emit("mail", {"text": "hello"}, source="test")
    await host.drain()
    assert stand.heard == [("other", "initialize"), "hello"]


async def test_an_initialize_that_swallows_its_end_is_left_behind(
    duly_world: World, shelf: Shelf
) -> None:
    """B9: the time limit holds also against code that does not hear."""
    deaf = """
class Main(duly.Extension):
    async def initialize(self, context):
        import asyncio
        for _ in range(3):
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                pass
"""
    shelf.put("deaf", deaf)
    host = await duly_world.host(extensions=shelf.folder)
    assert "does not end when it is cancelled" in (await errors(host))["deaf"]
    assert duly_world.loop.time() < loader.INITIALIZE_S + 10


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (None, "broken/manifest.yaml: There is no file"),
        (
            "id: broken\nid: other\n",
            "broken/manifest.yaml: manifest.id (line 2, column 1) is given",
        ),
        (
            "id: broken\nnme: x\n",
            'broken/manifest.yaml: manifest.nme is not known. Did you mean "na',
        ),
    ],
)
async def test_a_broken_manifest_is_named_by_folder_file_and_key(
    duly_world: World, shelf: Shelf, written: str | None, words: str
) -> None:
    """B9: and the others go on."""
    place = shelf.put("broken")
    (place / "manifest.yaml").unlink()
    if written is not None:
        (place / "manifest.yaml").write_text(written)
    shelf.put("other")
    host = await duly_world.host(extensions=shelf.folder)
    assert await stages(host) == {"broken": "manifest", "other": "ready"}
    assert (await errors(host))["broken"].startswith(words)


async def test_two_folders_with_one_id_are_both_left_out(duly_world: World, shelf: Shelf) -> None:
    """B9: source and state belong to the id, and nobody knows to whom it belongs."""
    shelf.put("one", id="same")
    shelf.put("two", id="same")
    host = await duly_world.host(extensions=shelf.folder)
    reports = await host.extensions()
    assert [each.stage for each in reports] == [LoadStage.MANIFEST] * 2
    assert all('manifest.id is "same" in one and two' in str(each.error) for each in reports)


async def test_an_entrypoint_that_leads_out_of_the_folder_is_refused(
    duly_world: World, shelf: Shelf, tmp_path: Path
) -> None:
    """B9: a link is followed before it is believed; a module of the program is not found either."""
    outside = tmp_path / "outside.py"
    outside.write_text("import duly\nclass Main(duly.Extension): pass\n")
    place = shelf.put("link")
    (place / "main.py").unlink()
    (place / "main.py").symlink_to(outside)
    shelf.put("library", entrypoint="json:JSONDecoder")
    host = await duly_world.host(extensions=shelf.folder)
    found = await errors(host)
    assert found["link"] == "The module main is outside of link; it was not run. Move it there."
    assert found["library"] == "There is no module json in library. Correct its entrypoint."


async def test_a_failing_close_is_reported_and_the_others_are_closed(
    duly_world: World, shelf: Shelf, caplog: pytest.LogCaptureFixture
) -> None:
    """B9: whatever an extension does at the end, the host closes."""
    shelf.put("a", HEARS)
    shelf.put("b", raising("close", "raise SystemExit(9)"))
    shelf.put("c", raising("close", "await asyncio.sleep(10**6)"))
    host = await duly_world.host(extensions=shelf.folder)
    await host.close()
    assert stand.heard[-1] == "close"
    said = [each.getMessage() for each in caplog.records if each.name == "duly.extension"]
    assert "extension c broke when it was closed: It took longer than 10 s" in said[0]
    assert "extension b broke when it was closed: SystemExit: 9" in said[1]


@pytest.mark.parametrize(
    ("taken", "stage"),
    [("a:task.received:notify_user", "manifest"), ("a:mail:on_mail", "initialize")],
)
async def test_a_name_that_somebody_else_uses_breaks_only_the_extension_that_asks_for_it(
    duly_world: World, shelf: Shelf, taken: str, stage: str
) -> None:
    """B9, B13: it is reported and can be ended; the host opens, and the others go on."""

    async def handle(event: Event) -> None:
        pass

    host = await duly_world.host()
    host.bus.subscribe("elsewhere", handle, subscriber_id=taken)
    await host.drain()
    await host.close()
    duly_world._hosts.clear()
    shelf.put("a", HEARS, subscribes=[("task.received", "notify_user")])
    shelf.put("b")
    host = await duly_world.host(extensions=shelf.folder)
    assert await stages(host) == {"a": stage, "b": "ready"}
    (report,) = [each for each in await host.extensions() if each.id == "a"]
    assert f"Subscriber {taken} listens to elsewhere. Unsubscribe it" in (report.error or "")
    assert await host.bus.unsubscribe(taken) == 0
    await host.close()
    duly_world._hosts.clear()
    assert await stages(await duly_world.host(extensions=shelf.folder)) == dict.fromkeys(
        "ab", "ready"
    )


async def test_an_extension_that_did_not_get_ready_is_not_closed(
    duly_world: World, shelf: Shelf
) -> None:
    """B9: close is for what initialize took."""
    shelf.put("a", HEARS.replace("context.subscribe_event", "raise OSError #"))
    host = await duly_world.host(extensions=shelf.folder)
    await host.close()
    assert stand.heard == [("a", "initialize")]


async def test_what_is_no_extension_is_passed_over(duly_world: World, shelf: Shelf) -> None:
    """B9: files, hidden folders and what Python leaves behind."""
    shelf.put("a")
    for name in (".git", "__pycache__"):
        (shelf.folder / name).mkdir()
    (shelf.folder / "README.md").write_text("Hello")
    host = await duly_world.host(extensions=shelf.folder)
    assert await stages(host) == {"a": "ready"}


async def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """B9: nothing is opened that was not asked for."""
    host = Host(f"sqlite:///{tmp_path}/duly.db", extensions=tmp_path / "nowhere")
    with pytest.raises(ConfigError, match=r"there is no folder .*nowhere"):
        await host.open()


async def test_a_folder_holds_so_many_extensions_and_not_one_more(
    duly_world: World, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B9: a limit, and one past it."""
    monkeypatch.setattr(code_module, "FOLDERS_MAX", 2)
    shelf.put("a")
    shelf.put("b")
    host = await duly_world.host(extensions=shelf.folder)
    await host.close()
    shelf.put("c")
    with pytest.raises(ConfigError, match="at most 2 folders"):
        await duly_world.host(extensions=shelf.folder)


# -- What is kept for whom ------------------------------------------------------------------------


async def positions(host: Host) -> list[str]:
    rows = await host._desk().parts.store.list_subscriptions()
    return [each.subscriber_id for each in rows if not each.subscriber_id.startswith("duly:")]


async def test_manifest_subscriptions_come_before_any_initialize(
    duly_world: World, shelf: Shelf
) -> None:
    """B9, B13: by their place in the order of registration, and named after their handler."""
    shelf.put("a", HEARS, subscribes=[("mail", "notify_user"), ("other", "custom")])
    shelf.put("b", ECHO, subscribes=[("mail", "invoke_agent")], agent=stand.AGENT)
    host = await duly_world.host(extensions=shelf.folder)
    await host.drain()
    assert await positions(host) == [
        "a:mail:notify_user",
        "b:mail:invoke_agent",
        "a:mail:on_mail",
    ]


async def test_what_a_broken_extension_subscribed_to_waits_for_it(
    duly_world: World, shelf: Shelf
) -> None:
    """B9, B13: broken from its first day, repaired on the second: nothing was lost or half-told."""
    user = User()
    broken = HEARS.replace("context.subscribe_event", "raise OSError #")
    shelf.put("a", broken, subscribes=[("mail", "notify_user")])
    host = await duly_world.host(extensions=shelf.folder, channels=[user])
    await host.bus.emit("mail", {"text": "hello"}, source="test")
    await host.drain()
    (waiting,) = await host.bus.deliveries(status="waiting")
    assert (waiting.subscriber_id, waiting.attempts) == ("a:mail:notify_user", 0)
    assert user.texts == []
    await host.close()
    shelf.put("a", HEARS + "# repaired", subscribes=[("mail", "notify_user")])
    host = await duly_world.host(extensions=shelf.folder, channels=[user])
    await host.drain()
    assert user.texts == ["hello"]


async def test_what_was_subscribed_before_initialize_failed_waits_too(
    duly_world: World, shelf: Shelf
) -> None:
    """B13: and no handler of half an extension is called."""
    half = HEARS.replace("self.on_mail)", "self.on_mail)\n        raise OSError('half')")
    shelf.put("a", half)
    host = await duly_world.host(extensions=shelf.folder)
    await host.bus.emit("mail", {"text": "hello"}, source="test")
    await host.drain()
    (waiting,) = await host.bus.deliveries(status="waiting")
    assert waiting.subscriber_id == "a:mail:on_mail"
    assert stand.heard == [("a", "initialize")]


async def test_an_extension_that_is_taken_away_keeps_its_place(
    duly_world: World, shelf: Shelf
) -> None:
    """B13: a subscription lasts until it is ended, not until its code is gone."""
    place = shelf.put("a", HEARS)
    host = await duly_world.host(extensions=shelf.folder)
    await host.drain()
    await host.close()
    hidden = place.rename(shelf.folder / ".a")
    host = await duly_world.host(extensions=shelf.folder)
    await host.bus.emit("mail", {"text": "hello"}, source="test")
    await host.drain()
    assert [str(each.status) for each in await host.bus.deliveries()] == ["waiting"]
    await host.close()
    hidden.rename(place)
    host = await duly_world.host(extensions=shelf.folder)
    await host.drain()
    assert stand.heard[-1] == "hello"


async def test_what_an_extension_no_longer_asks_for_can_be_ended(
    duly_world: World, shelf: Shelf
) -> None:
    """B13: its events would wait for ever; what it is connected to stays its own."""
    shelf.put("greeter", HEARS.replace("on_mail", "on_old_mail"))
    host = await duly_world.host(extensions=shelf.folder)
    await host.close()
    shelf.put("greeter", HEARS)
    host = await duly_world.host(extensions=shelf.folder)
    for _ in range(2):  # before its record is written, and after
        with pytest.raises(RequestRefused, match="belongs to greeter"):
            await host.bus.unsubscribe("greeter:mail:on_mail")
        await host.bus.emit("mail", {"text": "hello"}, source="test")
        await host.drain()
    assert await host.bus.unsubscribe("greeter:mail:on_old_mail") == 2
    assert await host.bus.deliveries("waiting") == ()


async def test_nothing_is_delivered_before_every_extension_is_initialised(
    duly_world: World, shelf: Shelf
) -> None:
    """B13: what the first one says in initialize, the last one hears."""
    speaks = """
class Main(duly.Extension):
    async def initialize(self, context):
        await context.emit("mail", {"text": "good morning"})
"""
    shelf.put("a", speaks)
    shelf.put("b", HEARS)
    host = await duly_world.host(extensions=shelf.folder)
    assert stand.heard == [("b", "initialize")]
    await host.drain()
    assert stand.heard == [("b", "initialize"), "good morning"]


async def test_the_name_of_an_extension_is_not_the_program_s_to_use(
    duly_world: World, shelf: Shelf
) -> None:
    """B1: a program that embeds the host cannot speak as an extension, ready or broken."""
    shelf.put("ready")
    shelf.put("broken", "raise OSError")
    host = await duly_world.host(extensions=shelf.folder)
    for source in ("ready", "broken", "duly"):
        with pytest.raises(RequestRefused, match=f"Only {source} itself"):
            await host.bus.emit("mail", {}, source=source)


async def test_a_host_without_extensions_has_none(duly_world: World) -> None:
    """B9: and asks the bus for nothing."""
    host: Any = await duly_world.host()
    assert await host.extensions() == ()
    assert await host._desk().parts.store.list_subscriptions() == ()


MANY = """
from tests.bus.extension.stand import heard

class Main(duly.Extension):
    async def initialize(self, context):
        for number in range(1001):
            context.subscribe_event(f"topic.{number}", self.on_event)

    async def on_event(self, event):
        heard.append(event.id)
"""


async def test_an_extension_with_one_handler_too_many_has_none_connected(
    duly_world: World, shelf: Shelf
) -> None:
    """B9, B13: it is broken, so its events wait, and it takes nobody else's place on the bus."""
    shelf.put("many", MANY)
    host = await duly_world.host(extensions=shelf.folder)
    assert await stages(host) == {"many": "initialize"}
    await host.bus.emit("topic.0", {}, source="test")
    await host.drain()
    (waits,) = await host.bus.deliveries("waiting")
    assert waits.subscriber_id == "many:topic.0:on_event"
    assert "not connected" in short(host, waits)
