"""What people allowed, as they remember it themselves, and what left the host all the same.

Law 1  A person's yes counts from the moment it is said until it is refused: a host that dies in
       between may have heard it.
Law 2  A call leaves only as it is written down, and each attempt once (L2). Where a person is to
       be asked, it leaves only after a yes to exactly this row and this call (A3, A4).
       A call under an allowance was approved with an earlier one: as often as the person said,
       in the version they saw, while it held. While one holds, no call that it covers asks (A3).
Law 3  A host looks at the grant between its last write before the send and the first byte; of a
       call that is sent again, after the write of the send. What was allowed all that time is what
       counts (A1): a grant taken back later than that may come too late, one taken back earlier
       must not.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from duly.connectors.base import Call
from duly.errors import StoreLost
from duly.rules.schedule import DAY_MS
from duly.rules.value import decode
from duly.rules.word import MutationStatus, Waits
from verification.point import AnswerLost
from verification.workflow.seen import MutationSeen, RunSeen, Seen

UNHEARD = (StoreLost, AnswerLost)  # what was asked may have been done


class Mark(NamedTuple):
    """When a run was written the last time but one, and the last time, counted in looks."""

    before: int
    last: int


@dataclass(slots=True)
class Consent:
    """What was allowed so far, over all lives of the host."""

    capability: str
    is_asked: bool  # the policy wants a person to agree to every change
    approved: dict[str, list[MutationSeen]] = field(default_factory=lambda: defaultdict(list))
    agreed: set[str] = field(default_factory=set)  # the yes was taken, and the person told so
    rejected: set[str] = field(default_factory=set)  # so was the no
    is_taken_back: bool = False  # a person was told that the capability is revoked
    allowed: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))  # calls said
    amending: int = 0  # amendments that are being carried out
    is_clock_set: bool = False  # then it is unknown whether an allowance has ended
    withdrawing: int = 0  # actions that may take a proposal away and are being carried out
    # The life in which such an action had no answer: it may be done until that life is over.
    _unheard_in: int | None = None
    _life: int = 0
    _sent: set[tuple[str, int]] = field(default_factory=set)  # every attempt that left
    _sent_at: dict[str, int] = field(default_factory=dict)  # by mutation: when it left last
    _looks: int = 0
    _marks: dict[str, Mark] = field(default_factory=dict)  # by run
    _limit: int | None = None  # how often a day; never, if nothing is granted
    _limited_since: int = 0

    # -- What people say ------------------------------------------------------------------------

    def approve(self, shown: MutationSeen) -> None:
        """Note a yes to a call as it was shown."""
        self.approved[shown.id].append(shown)

    def refuse(self, shown: MutationSeen) -> None:
        """Take back a yes that was refused; another one to the same call stays."""
        self.approved[shown.id].remove(shown)

    @contextmanager
    def amendment(self) -> Iterator[None]:
        """Let a proposed call be changed meanwhile."""
        self.amending += 1
        try:
            yield
        except BaseException as error:
            self._note(error)
            raise
        finally:
            self.amending -= 1

    def is_amended(self, before: MutationSeen, now: MutationSeen) -> bool:
        """Tell whether a person may have changed a call so: it waited, and what was is kept."""
        is_waiting = {before.status, now.status} == {MutationStatus.PROPOSED}
        first = before.args_proposed or before.args
        is_kept = now.args_proposed == first and now.key == before.key
        return is_waiting and is_kept and (self.amending > 0 or self._unheard_in is not None)

    @contextmanager
    def withdrawal(self) -> Iterator[None]:
        """Let a proposal be taken away meanwhile."""
        self.withdrawing += 1
        try:
            yield
        except BaseException as error:
            self._note(error)
            raise
        finally:
            self.withdrawing -= 1

    def _note(self, error: BaseException) -> None:
        if isinstance(error, UNHEARD) or not isinstance(error, Exception):
            self._unheard_in = self._life

    # -- What must hold -------------------------------------------------------------------------

    def look(self, was: Seen | None, now: Seen, life: int = 0) -> Iterator[str]:
        """Follow the open run and the grants through a commit."""
        self._looks += 1
        self._life = life
        if was is None:
            self._marks.clear()
        run = now.open_run
        if run is not None and (was is None or _part_of(was, run.id) != _part_of(now, run.id)):
            mark = self._marks.get(run.id, Mark(self._looks, self._looks))
            self._marks[run.id] = Mark(mark.last, self._looks)
        limit = now.grants.get(self.capability, 0)
        if limit != self._limit:
            self._limit, self._limited_since = limit, self._looks
        if self.is_taken_back and self.capability in now.grants:
            yield f"{self.capability} was taken back and is granted"
        if run is not None and run.waits == Waits.APPROVAL and not self.is_asked:
            yield f"run {run.id} waits for an approval that no policy wants"
        yield from self._look_at_answers(was, now)
        if was is not None:
            yield from self._look_at_allowances(was, now)
        if self._unheard_in is not None and life > self._unheard_in:
            self._unheard_in = None

    def _look_at_answers(self, was: Seen | None, now: Seen) -> Iterator[str]:
        """See that an answer that was taken holds, and that only a person withdraws one."""
        for row in now.mutations.values():
            if row.id in self.rejected and row.status != MutationStatus.REJECTED:
                yield f"mutation {row.id} was rejected and is {row.status}"
            is_waiting = now.runs[row.held_by].waits == Waits.APPROVAL
            if row.status == MutationStatus.PROPOSED and is_waiting and row.id in self.agreed:
                yield f"mutation {row.id} was approved and waits for approval"
            before = None if was is None else was.mutations.get(row.id)
            is_taken = before is not None and before.status == MutationStatus.PROPOSED
            is_wanted = self.withdrawing > 0 or self._unheard_in is not None
            if is_taken and row.status == MutationStatus.FAILED and not is_wanted:
                yield f"mutation {row.id} was withdrawn, and no person wanted that"

    def _look_at_allowances(self, was: Seen, now: Seen) -> Iterator[str]:
        """See that a row is sent under an allowance only while it holds, and asks only if none."""
        used = Counter(row.allowance_id for row in now.mutations.values())
        for row in now.mutations.values():
            if row.id in was.mutations:
                continue
            run = now.runs[row.held_by]
            allowance = now.allowances.get(row.allowance_id or "")
            is_asking = row.status == MutationStatus.PROPOSED and run.waits == Waits.APPROVAL
            if is_asking and not self.is_clock_set and _find_live(was, run):
                yield f"mutation {row.id} asks, and an allowance covers it"
            if allowance is None:
                continue
            if allowance.is_revoked:
                yield f"mutation {row.id} was sent under an allowance that was revoked"
            if not run.version == allowance.version == now.version:
                yield f"mutation {row.id} was sent under an allowance of another version"
            if used[allowance.id] > max(self.allowed[allowance.mutation_id], default=0):
                yield f"{used[allowance.id]} calls were sent under {allowance.id}"

    def see_leave(self, call: Call, now: Seen | None) -> Iterator[str]:
        """Look at a call whose first byte is about to leave."""
        row = _row_of(call, now)
        if row is None or row.sent_at is None:
            yield f"attempt {call.attempt} of {call.tool} left, and is not written down so"
            return
        if (row.id, call.attempt) in self._sent:
            yield f"attempt {call.attempt} of mutation {row.id} left twice"
        if row.id in self.rejected:
            yield f"mutation {row.id} was rejected and left"
        said = [(yes.hash, yes.args) for yes in self.approved[row.id]]
        is_allowed = now is not None and row.allowance_id in now.allowances
        if self.is_asked and (row.hash, row.args) not in said and not is_allowed:
            yield f"mutation {row.id} left, and no person had approved it"
        mark = self._marks[row.held_by]
        looked = mark.before if call.attempt == 1 else mark.last
        if self._limit is not None and self._limited_since <= looked:
            count = self._count_today(row.id, row.sent_at)
            if count >= self._limit:
                yield f"mutation {row.id} left after {count} others, allowed are {self._limit}"
        self._sent.add((row.id, call.attempt))
        self._sent_at[row.id] = row.sent_at

    def _count_today(self, besides: str, now: int) -> int:
        today = now - now % DAY_MS
        # A send that a wrong clock dated far ahead does not count today.
        ends = today + 2 * DAY_MS
        return sum(today <= at < ends for row_id, at in self._sent_at.items() if row_id != besides)


def _find_live(was: Seen, run: RunSeen) -> bool:
    """Tell whether an allowance covers the calls of a run: it is for any events.

    A run can outlive its version by a deploy. An allowance cannot.
    """
    used = Counter(row.allowance_id for row in was.mutations.values())
    return run.version == was.version and any(
        each.version == run.version and not each.is_revoked and used[each.id] < each.calls
        for each in was.allowances.values()
    )


def _part_of(seen: Seen, run_id: str) -> tuple[RunSeen | None, MutationSeen | None]:
    return seen.runs.get(run_id), seen.held(run_id)


def _row_of(call: Call, now: Seen | None) -> MutationSeen | None:
    """Find the row a call is written down in, exactly as it is sent."""
    rows = () if now is None else now.mutations.values()
    for row in rows:
        is_out = row.status == MutationStatus.IN_FLIGHT and row.key == call.key
        if is_out and row.attempt == call.attempt and decode(row.args) == dict(call.args):
            return row
    return None
