"""Which workflows a host of a fleet may hold: what it can do, and its fair share of that (H7).

Law 1  Workflows that the same hosts can do are shared among these hosts: each holds a fair part of
       them and one more. Together they have room for all of them, so no workflow that a host could
       run is left without one; what one host alone can do is never too much for it.
Law 2  A tool counts as the same on two hosts if it has the same name. What settings a connector
       has decides nothing here; where they differ, `duly doctor` says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from duly.rules.value import Json, decode, digest, encode

UNSERVED_SHOWN: Final = 5  # tools, and hosts, that a reason carries; it counts the others
OFFERS_BYTES_MAX: Final = 1024 * 1024  # two digests of each connector


@dataclass(frozen=True, slots=True)
class Offers:
    """The tools of a host, and the digests of them and of the settings of each connector."""

    tools: tuple[str, ...]
    text: str


def offers_of(tools: Iterable[str], settings: Mapping[str, Json]) -> Offers:
    """Put together what a host offers.

    >>> offers_of(["b.x", "a.y"], {}).tools
    ('a.y', 'b.x')
    """
    names = tuple(sorted(tools))
    told = {"tools": digest(list(names)), "settings": {k: digest(v) for k, v in settings.items()}}
    return Offers(names, encode(told, limit_bytes=OFFERS_BYTES_MAX))


def is_mixed(offers: Collection[str | None]) -> bool:
    """Tell whether these hosts may differ in their tools; one that has not said it may.

    >>> is_mixed(['{"tools":"1","settings":{"a":"2"}}', '{"tools":"1"}']), is_mixed([None])
    (False, False)
    >>> is_mixed(['{"tools":"1"}', None]), is_mixed(['{"tools":"1"}', '{"tools":"2"}'])
    (True, True)
    """
    return len({None if each is None else _told(each).get("tools") for each in offers}) > 1


def differing(offers: Iterable[tuple[str, str | None]]) -> dict[str, tuple[str, ...]]:
    """List the connectors whose settings are not the same on all these hosts, with the hosts.

    >>> one, two = '{"settings":{"a":"1"}}', '{"settings":{"a":"2"}}'
    >>> differing([("here", one), ("there", two), ("old", None)])
    {'a': ('here', 'there')}
    """
    found: dict[str, list[tuple[str, object]]] = {}
    for host, text in offers:
        settings = {} if text is None else _told(text).get("settings")
        for name, said in settings.items() if isinstance(settings, dict) else ():
            found.setdefault(name, []).append((host, said))
    return {
        name: tuple(sorted(host for host, _ in said))
        for name, said in found.items()
        if len({each for _, each in said}) > 1
    }


@dataclass(frozen=True, slots=True)
class Unserved:
    """A workflow that no host can do that serves: the tools it lacks, and the hosts looked at."""

    tools: tuple[str, ...]
    hosts: tuple[str, ...]


def read_unserved(text: str | None) -> Unserved | None:
    """Read what each host lacks: the tools that all of them lack, if there are such.

    Before each host stands its length: its name may hold any character.

    >>> read_unserved("3 a:1 shop.buy,3 b,2 mail.send,3 b,2 shop.buy")
    Unserved(tools=('shop.buy',), hosts=('a:1', 'b,2'))
    >>> read_unserved("3 a:1 shop.buy,3 b:2 mail.send").tools, read_unserved(None)
    (('mail.send', 'shop.buy'), None)
    """
    if text is None:
        return None
    lacks: dict[str, set[str]] = {}
    while text:
        length, _, rest = text.partition(" ")
        host, rest = rest[: int(length)], rest[int(length) + 1 :]
        tool, _, text = rest.partition(",")
        lacks.setdefault(host, set()).add(tool)
    tools = set.intersection(*lacks.values()) or set.union(*lacks.values())
    return Unserved(tuple(sorted(tools)), tuple(sorted(lacks)))


def unserved_facts(found: Unserved | None) -> dict[str, object]:
    """Name the first tools and hosts, and say how many more there are.

    >>> unserved_facts(Unserved(("a.x",), tuple("123456")))["more_hosts"]
    1
    """
    if found is None:
        return {}
    return {
        "tools": found.tools[:UNSERVED_SHOWN],
        "more_tools": max(0, len(found.tools) - UNSERVED_SHOWN),
        "hosts": found.hosts[:UNSERVED_SHOWN],
        "more_hosts": max(0, len(found.hosts) - UNSERVED_SHOWN),
    }


def _told(text: str) -> Mapping[str, Json]:
    told = decode(text)
    assert isinstance(told, dict), text
    return told


@dataclass(frozen=True, slots=True)
class Kin:
    """What decides which hosts can do a workflow: its machine, and the hosts without its tools."""

    machine: str | None = None
    unable: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Shares:
    """How the workflows are shared among the hosts that serve: `machines` by the id of the host."""

    own: str = ""
    machines: Mapping[str, str | None] = field(default_factory=dict)
    counts: Mapping[Kin, int] = field(default_factory=dict)

    def group(self, kin: Kin) -> frozenset[str]:
        """Return the hosts that can do such a workflow.

        >>> Shares("a", {"a": None, "b": None}).group(Kin(unable=frozenset("b")))
        frozenset({'a'})
        """
        return frozenset(
            host
            for host, machine in self.machines.items()
            if host not in kin.unable and kin.machine in (None, machine)
        )

    def most(self, kin: Kin) -> int | None:
        """Return how many workflows of the same group this host holds at most; None is no limit.

        >>> here = {"a": None, "b": None, "c": None}
        >>> only_a = Kin(unable=frozenset("bc"))
        >>> shares = Shares("a", here, {Kin(): 10, only_a: 4})
        >>> shares.most(Kin()), shares.most(only_a)
        (5, None)
        """
        group = self.group(kin)
        return fair_share(self._count(group, self.counts), len(group))

    def has_room(self, kin: Kin, held: Mapping[Kin, int]) -> bool:
        """Tell whether one more workflow of this group is within the share of this host."""
        most = self.most(kin)
        return most is None or self._count(self.group(kin), held) < most

    def has_any_room(self, held: Mapping[Kin, int]) -> bool:
        """Tell whether this host may claim anything at all."""
        kinds = self.counts or {Kin(): 0}
        return any(self.own in self.group(each) and self.has_room(each, held) for each in kinds)

    def find_over(self, held: Mapping[Kin, int]) -> dict[frozenset[str], int]:
        """Count by group how many workflows this host holds beyond its share.

        >>> shares = Shares("a", {"a": None, "b": None}, {Kin(): 2})
        >>> list(shares.find_over({Kin(): 3}).values())
        [1]
        """
        over = {}
        for group, kin in {self.group(each): each for each in held}.items():
            most, count = self.most(kin), self._count(group, held)
            if most is not None and count > most:
                over[group] = count - most
        return over

    def _count(self, group: frozenset[str], kinds: Mapping[Kin, int]) -> int:
        return sum(count for each, count in kinds.items() if self.group(each) == group)


def fair_share(workflows: int, hosts: int) -> int | None:
    """Return how many workflows one of so many hosts holds at most; None if there is no limit.

    A host that is alone has no limit: a workflow that was just deployed has no other host to go to.

    >>> fair_share(10, 1), fair_share(10, 3), fair_share(0, 2)
    (None, 5, 1)
    """
    return None if hosts <= 1 else -(-workflows // hosts) + 1
