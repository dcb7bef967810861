"""The bus in the storm: subscribers in every host, which report each event to the outside.

Law 1  Every event that the bus has taken is handled by every subscriber at least once, and none is
       left in between when the storm has calmed.
Law 2  A subscriber sees events in the order of their ids. It may see one again, if something befell
       the hosts: each fault makes a subscriber see at most one event again. What a person has tried
       again after three deaths is behind its turn.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count, pairwise
from pathlib import Path
from typing import Final

from duly.errors import DulyError
from duly.host import Host
from duly.rules.delivery import DeliveryStatus

TOPIC: Final = "tick"
HANDLERS: Final = ("first", "second")
UNHANDLED_MAX: Final = 50  # events that one of the subscribers has not seen yet
MANIFEST: Final = """
id: ticks
name: Ticks
version: "1.0"
entrypoint: main:Ticks
"""
CODE: Final = f"""
import asyncio
import json
import urllib.request
from pathlib import Path

import duly

PORT = (Path(__file__).parents[3] / "port").read_text()
OFTEN = duly.Retry(attempts=100, delays_s=(0.2,))


def tell(subscriber, event_id):
    body = json.dumps({{"subscriber": subscriber, "id": event_id}}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{{PORT}}/tell", body)
    urllib.request.urlopen(request, timeout=5).close()


class Ticks(duly.Extension):
    async def initialize(self, context):
        context.subscribe_event("{TOPIC}", self.first, retry=OFTEN)
        context.subscribe_event("{TOPIC}", self.second, retry=OFTEN)

    async def first(self, event):
        await asyncio.to_thread(tell, "first", event.id)

    async def second(self, event):
        await asyncio.to_thread(tell, "second", event.id)
"""


def install(folder: Path) -> None:
    """Give a project its extension."""
    extension = folder / "extensions" / "ticks"
    extension.mkdir(parents=True)
    (extension / "manifest.yaml").write_text(MANIFEST)
    (extension / "main.py").write_text(CODE)


@dataclass
class Told:
    """What the subscribers have reported, in the order in which it arrived."""

    by_subscriber: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    lock: threading.Lock = field(default_factory=threading.Lock)

    def tell(self, subscriber: str, event_id: int) -> None:
        """Note that a subscriber has an event."""
        with self.lock:
            self.by_subscriber[subscriber].append(event_id)

    def least(self) -> int:
        """How many events the slower of the subscribers has seen."""
        return min(len(set(self.by_subscriber[each])) for each in HANDLERS)


@dataclass
class Ticking:
    """The events that are put on the bus in a storm, and what becomes of them."""

    told: Told
    taken: list[int] = field(default_factory=list)
    retried: set[int] = field(default_factory=set)  # dead letters that a person has tried again

    async def emit(self, host: Host) -> None:
        """Put events on the bus, as fast as they are handled.

        The first one comes when both subscribers are known: the bus closes what has none (B11).
        """
        is_known = False
        for number in count():
            is_known = is_known or await self._are_known(host)
            if not is_known or len(self.taken) - self.told.least() >= UNHANDLED_MAX:
                await asyncio.sleep(0.1)
                continue
            try:
                self.taken.append(await host.bus.emit(TOPIC, {"number": number}, source="storm"))
            except DulyError:
                await asyncio.sleep(0.1)
            await asyncio.sleep(0)

    async def _are_known(self, host: Host) -> bool:
        with suppress(DulyError):
            known = [each.subscriber_id for each in await host.bus.subscribers()]
            return all(any(each in name for name in known) for each in HANDLERS)
        return False

    async def mind(self, host: Host) -> None:
        """Try dead letters again: their hosts have died three times."""
        with suppress(DulyError):
            for each in await host.bus.deliveries(DeliveryStatus.DEAD):
                self.retried.add(each.event_id)
                await host.bus.retry(each.event_id, each.subscriber_id)

    def judge(self, journal: Sequence[int], left: int, faults: int) -> list[tuple[str, int]]:
        """Compare what the bus has taken with what the subscribers have seen; return the counts."""
        assert left == 0, f"{left} events of the bus are left in between"
        lost = set(self.taken) - set(journal)
        assert not lost, f"taken by the bus and not there: {sorted(lost)[:20]}"
        again = 0
        for subscriber in HANDLERS:
            seen = self.told.by_subscriber[subscriber]
            missing = set(journal) - set(seen)
            assert not missing, f"never handled by {subscriber}: {sorted(missing)[:20]}"
            first = [each for each in dict.fromkeys(seen) if each not in self.retried]
            turned = [pair for pair in pairwise(first) if pair[0] > pair[1]]
            assert not turned, f"{subscriber} has seen events out of order: {turned[:20]}"
            repeats = len(seen) - len(set(seen))
            assert repeats <= faults, f"{subscriber}: {repeats} repeats after {faults} faults"
            again += repeats
        return [
            ("events of the bus, each handled by both subscribers", len(journal)),
            ("handled again after a death", again),
            ("events of the bus left in between", left),
            ("dead letters tried again by a person", len(self.retried)),
        ]
