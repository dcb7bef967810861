"""The breaks of extensions: manifests, loading, contexts, channels, agents."""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from typing import Any

from duly.store.record import JournalEvent
from tests.breaks import Break

SEED = "tests/bus/extension/test_seed.py"
LANES = "tests/bus/extension/test_lanes.py"
LOADER = "tests/bus/extension/test_loader.py"
CONTEXT = "tests/bus/extension/test_context.py"
CHANNEL = "tests/bus/extension/test_channel.py"
AGENT = "tests/bus/extension/test_agent.py"
MANIFEST = "tests/rules/test_manifest.py"
REPAIR = "tests/bus/extension/test_repair.py"
YAML = "tests/bus/extension/test_yaml.py"


def _let_pass(*_: object, **__: object) -> None:
    """Refuse nothing, and do nothing."""


async def _do_nothing(*_: object, **__: object) -> None:
    """Write nothing down."""


async def _silence(*_: object) -> JournalEvent:
    return JournalEvent("nothing.happened", "duly", "{}")


def _always(*_: object, **__: object) -> bool:
    return True


def _as_it_is(raw: Any, *_: object) -> Any:
    return raw


def _unless_broken_itself(_: object, each: Any) -> bool:
    return each.error is None


def _first_channel(self: Any, channel_id: object = None) -> Any:
    return next(iter(self._channels.values()))


def _anybody(manifest: Any, extensions: Any, find_model: Any = None) -> Any:
    return next(iter(extensions.values()))


def _whole(url: str) -> str:
    return url


def _connected_at_once(
    self: Any, topic: str, handler: Any, name: str, *_: object, **__: object
) -> None:
    self.line.subscribe(topic, handler, subscriber_id=f"{self.extension_id}:{topic}:{name}")


def _one(attribute: str, replacement: Any, says: str, *tests: str, rule: str = "B9") -> Break:
    """Write a break of one attribute: `bus.loader:Loader.open`."""
    module, _, name = attribute.partition(":")
    return Break(rule, f"duly.{module}", name, replacement, tests, says)


BREAKS = (
    _one("rules.manifest:refuse_unknown", _let_pass, "an unknown key is read over", MANIFEST),
    _one("rules.manifest:_list", _as_it_is, "a list of a manifest has no end", MANIFEST),
    _one("bus.manifest:MANIFEST_BYTES", 2**40, "a manifest of any size is parsed", YAML),
    _one("bus.manifest:DEPTH_MAX", 10**6, "a manifest of any depth is read", YAML),
    _one("bus.loader:INITIALIZE_S", 10**9, "initialize may take for ever", LOADER),
    _one("bus.loader:CLOSE_S", 10**9, "close may take for ever", LOADER),
    _one("bus.code:lies_in", _always, "code from anywhere is an extension", LOADER),
    _one("bus.code:_Source", SourceFileLoader, "a compiled file is run instead", SEED),
    _one("bus.loader:SEND_S", 300.0, "one send has all the time of a handler", LANES),
    _one("rules.delivery:is_addressed", _always, "every channel waits for every other", LANES),
    _one(
        "bus.loader:Loader._may_go_on",
        _unless_broken_itself,
        "who needs a broken extension is loaded",
        LOADER,
    ),
    _one("bus.channel:Channels.find", _first_channel, "an unknown channel is the first", CHANNEL),
    _one("bus.agent:choose_provider", _anybody, "whoever comes first is the agent", AGENT),
    _one("bus.extension:_check_handler", _let_pass, "a handler need not be async", CONTEXT),
    _one(
        "bus.extension:ExtensionContext.__setattr__",
        object.__setattr__,
        "an extension writes on its context",
        CONTEXT,
        rule="B1",
    ),
    _one(
        "bus.extension:ExtensionPort.keep",
        _do_nothing,
        "a broken extension's events are not kept for it",
        LOADER,
        rule="B13",
    ),
    _one(
        "bus.extension:ExtensionPort.subscribe",
        _connected_at_once,
        "half an extension is called",
        LOADER,
        rule="B13",
    ),
    _one(
        "bus.loader:Loader._listen_for_the_user",
        _do_nothing,
        "nobody brings an escalation to the user",
        AGENT,
        rule="B10",
    ),
    _one("bus.channel:_shown", _whole, "an error names the whole address", CHANNEL, rule="A5"),
    _one("bus.agent:_failed_run", _let_pass, "no agent is shown a case", REPAIR, rule="B10"),
    _one(
        "engine.proposal:Proposals._announcement",
        _silence,
        "nobody is told of a proposal",
        REPAIR,
        rule="B10",
    ),
)
