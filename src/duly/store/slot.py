"""The counters of a host's connections: what became of a write, and whether the store is older.

Law 1  Every write of a host begins by moving the counter of its connection, its *slot*. A host that
       was evicted has no slots: it writes nothing more, an act of a person included (H2).
Law 2  A new connection enters its slot by raising the session. The transaction of the connection
       before it has ended by then, or will find another session. So the counter says for certain
       whether the last write was committed (H10).
Law 3  Each entry compares what all connections of the host were told. A counter below the last
       barrier that was acknowledged shows a store that is older than its host was told: a standby
       that was promoted, or a backup. So does a host that is missing after a promotion, and one
       that is missing without a trace: no host has evicted it, and it has not left (`claim.py`).
       A write may be acknowledged by the old server when the host has compared on the new one. Then
       the next write of the host compares again. So it does when the server was started anew under
       a connection, as through a pooler that lends others for each transaction (`fleet.py`).
       What a former id of the process is told is compared under the present one, however late, and
       again until a barrier was acknowledged under that one, which a loss would show as well.
Law 4  A counter below another write that was acknowledged shows riders that a server lost when it
       died. Their host has lost track of its runs, and claims them anew (R7).
Law 5  A host that has compared on the server's timeline says so in its row. A host whose lease was
       over by then says nothing: another one may have taken its place in what was lost. Since which
       start of the server it has compared is said beside it: others wait for that (`claim.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from threading import Lock

from duly.errors import Fenced, StoreOlder
from duly.store.base import Durability, Row, Transaction
from duly.store.upkeep import MET

NAME = "PostgreSQL"


@dataclass(slots=True)
class Slot:
    """What one connection of a host knows of its counter."""

    number: int
    host_id: str
    session: int
    commit_seq: int
    told_seq: int = 0  # of the last write that was acknowledged
    barrier_seq: int = 0  # of the last barrier among them
    compared: int | None = None  # of a former id: since which comparison under a later one

    @property
    def place(self) -> tuple[str, int]:
        """Which connection of which host it belongs to."""
        return self.host_id, self.number

    @property
    def named(self) -> dict[str, str | int]:
        """Name it, in the session in which it was entered."""
        return {"host": self.host_id, "number": self.number, "session": self.session}

    def tell(self, durability: Durability) -> None:
        """Note that the last write was acknowledged."""
        self.told_seq, self.compared = self.commit_seq, None
        if durability is Durability.BARRIER:
            self.barrier_seq = self.commit_seq


@dataclass(frozen=True, slots=True)
class Entered:
    """A slot as the store has it, on which timeline, and whether riders of the host are lost."""

    slot: Slot
    timeline: int | None
    lacks_riders: bool
    compared: int = 0  # so many late acknowledgements were known when the host compared
    started: int | None = None  # since which start of the server it has
    told: tuple[Slot, ...] = ()  # what was compared


@dataclass(slots=True)
class HostSlots:
    """What a host knows of all its counters, and the timeline on which it compared them last."""

    host_id: str = ""  # the one under which it has
    timeline: int | None = None
    started: int | None = None  # the start of the server since which it has
    by_place: dict[tuple[str, int], Slot] = field(default_factory=dict)
    given_up: frozenset[str] = frozenset()  # ids under which the host writes nothing more
    lacks_riders: bool = False  # the host has not been told of it yet
    entries: int = 0  # how many new connections have entered
    comparisons: int = 0  # how often what was told was compared under the present id
    late: int = 0  # writes that were acknowledged when another connection had entered meanwhile
    compared: int = 0  # so many of them the host has compared
    # Connections enter in threads of their own; a counter that is left out is never compared.
    _keeping: Lock = field(default_factory=Lock, repr=False)

    @property
    def must_compare(self) -> bool:
        """Tell whether a write was acknowledged after the last comparison, by a server before it.

        Whether that server was another one is not known here. To compare again costs little. A
        start of the server that was seen since then counts as such a write.
        """
        return self.late > self.compared

    @property
    def moment(self) -> tuple[int, int]:
        """How many connections have entered, and how often the host has compared, by now."""
        return self.entries, self.comparisons

    def tell(self, slot: Slot, durability: Durability, began: tuple[int, int]) -> None:
        """Note that a write was acknowledged, which began at that moment."""
        entries, comparisons = began
        with self._keeping:
            slot.tell(durability)
            is_present = slot.host_id == self.host_id
            self.late += entries != self.entries or not is_present
            if slot.host_id in self.given_up:
                return
            # A host that has another id by now may have dropped it.
            kept = self.by_place | {slot.place: slot}
            if is_present and durability is Durability.BARRIER:
                kept = {
                    place: each
                    for place, each in kept.items()
                    if each.compared is None or each.compared > comparisons
                }
            self.by_place = kept

    @property
    def has_former(self) -> bool:
        """Tell whether what a former id was told is still compared: a barrier would end that."""
        return any(each.host_id != self.host_id for each in self.by_place.values())

    def see(self, started: int | None) -> None:
        """Note which start of the server a connection has found: it may outlast one."""
        with self._keeping:
            self.late += self.started not in (None, started)

    def keep(self, entered: Entered, *, is_new: bool = True, is_former: bool = False) -> Slot:
        """Keep a slot that was entered; what the host was told under another id was compared.

        One that is entered to compare again belongs to no new connection. One that was entered
        late, under a former id, is compared under the present one, and says nothing of that.
        """
        slot = entered.slot
        with self._keeping:
            self.entries += is_new
            known = self.by_place.get(slot.place)
            if known is not None:
                known.session, known.commit_seq = slot.session, slot.commit_seq
                slot = known
            self.by_place = self.by_place | {slot.place: slot}
            others = [each for each in self.by_place.values() if each.host_id != slot.host_id]
            if not is_former:
                self.host_id = slot.host_id
                self.timeline, self.started = entered.timeline, entered.started
                self.compared = max(self.compared, entered.compared)
                self.comparisons += 1
                for each in others:
                    if each.compared is None and each in entered.told:
                        each.compared = self.comparisons
            self.late += any(each.compared is None for each in others)
            if entered.lacks_riders:
                self.lacks_riders = True
                for each in self.by_place.values():
                    if each.host_id == slot.host_id:
                        each.told_seq = each.barrier_seq
        return slot

    def take_lacking(self) -> bool:
        """Tell, once, whether riders of the host are lost."""
        lacking, self.lacks_riders = self.lacks_riders, False
        return lacking

    def has_given_up(self, host_id: str | None) -> bool:
        """Tell whether a host writes nothing more under an id: its store was found to be older."""
        return host_id in self.given_up

    def give_up(self, host_id: str | None) -> None:
        """Compare with nothing that was told before: the store is known to be older.

        The host writes nothing more under the ids that were told, or under that which found it out
        and may never have been told anything: their claims may be lost. What finds it out again,
        later and under the same id, gives up nothing: the host may have another id by now.
        """
        with self._keeping:
            if host_id in self.given_up:
                return
            self.given_up |= {each.host_id for each in self.by_place.values()}
            self.given_up |= frozenset() if host_id is None else {host_id}
            self.timeline, self.started, self.by_place = None, None, {}


def enter(tx: Transaction, slots: HostSlots, host_id: str, number: int) -> Entered:
    """Enter a slot, in a transaction of its own, and compare what the host was told.

    Raise `Fenced` if the host was evicted, and `StoreOlder` if the store lacks what it confirmed.
    """
    if host_id in slots.given_up:
        raise Fenced(code="lapsed", subject=host_id)
    timeline, compared = tx.timeline, slots.late
    is_promoted = slots.timeline not in (None, timeline)
    # What it was told as another host is compared as well: that one cannot do it any more. This
    # is copied before the counters are read: other connections go on and are told more meanwhile.
    told = [replace(each) for each in tuple(slots.by_place.values())]
    found = tx.one("enter_slot", host=host_id, number=number)
    if found is None and not is_promoted and (not host_id or _is_traced(tx, host_id)):
        raise Fenced(code="lapsed", subject=host_id)
    counts: dict[tuple[str, int], int] = {
        (each, n): seq
        for each in {slot.host_id for slot in told}
        for n, seq in tx.all("list_slots", host=each)
    }

    def lacks(slot: Slot, told_seq: int) -> bool:
        return counts.get((slot.host_id, slot.number), 0) < told_seq

    older = {each.host_id for each in told if lacks(each, each.barrier_seq)}
    if not is_promoted:
        # The counters of an evicted host went with it. This is read after them: it may be evicted
        # between the two.
        older = {each for each in older if each == host_id or not _is_traced(tx, each)}
    if found is None or older:
        raise StoreOlder(code="store_older", subject=NAME)
    # A lease that is over may have led to an eviction that is lost.
    if is_promoted and not tx.run("confirm_host", id=host_id, timeline=timeline, clock=tx.clock_ms):
        raise Fenced(code="lapsed", subject=host_id)
    if (started := tx.started) is not None and host_id:
        tx.write("put_upkeep", name=f"{MET}{host_id}", at=started)
    lacking = any(lacks(each, each.told_seq) for each in told if each.host_id == host_id)
    slot = Slot(number, host_id, found[0], found[1])
    return Entered(slot, timeline, lacking, compared, started, tuple(told))


def _is_traced(tx: Transaction, host_id: str) -> bool:
    """Tell whether a host that is missing was evicted, or has left."""
    return tx.one("find_trace", host=host_id) is not None


def move(tx: Transaction, slot: Slot) -> int:
    """Count a write, as its first statement; return its number."""
    tx.host = slot.host_id
    return read_move(slot, tx.all("move_slot", **slot.named))


def read_move(slot: Slot, rows: Sequence[Row]) -> int:
    """Read the number of a write that was counted; a slot that is gone has none (H2)."""
    if not rows:
        raise Fenced(code="lapsed", subject=slot.host_id)
    ((number,),) = rows
    return int(number)
