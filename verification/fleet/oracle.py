"""What must hold of the hosts of a fleet, besides what must hold of one host.

Law 1  No write of a host that was evicted is committed.
Law 2  A workflow is never taken from a host that is here. Every claim raises its epoch by one, and
       nothing else does; a write under an earlier one is not committed, nor one of another host.
Law 3  A host is evicted only when its lease is over by the store's clock, and by its own count,
       which is never the longer one. A lease that is over is never renewed.
Law 4  A send begins under a live lease, by the host that holds the workflow; a host that leaves
       has no send out. A process whose lease was over with a send out never joins again.
Law 5  What a dead or stopped host holds is free after a lease and two renewals, if another host is
       well all that time.
Law 6  A host that was told of riders that are lost claims anew what it holds.
Law 7  A host that was stopped for longer than its lease, while another host was well, is evicted
       when it goes on. It sends only what it looked at its lease for before it was stopped, and
       nothing when the time of the tool is over (L7).
Law 8  When the store has lost a barrier that the holder of the workflow was told of, the workflow
       is paused and says since when it is blind. No send begins before that, nor after it.
Law 9  A host that lacks a tool of the workflow never claims it. (That one which has it does, is
       seen at the end: everything comes to rest.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from duly.errors import DulyError
from duly.host import CLOSE_S
from duly.rules.lease import LEASE_MS, RENEW_MS, SEND_LEFT_MS
from duly.store.base import Durability, Fence
from verification.fleet.member import Member
from verification.fleet.outside import LONG_TIMEOUT_S
from verification.fleet.server import Commit, FleetSeen, Kept
from verification.point import AnswerLost
from verification.workflow.consent import Consent

# `join` comes under a new id, and what `evict` and `leave` may do is decided by what they find.
# A `flush` writes nothing. A host that finds a store older than it was told pauses it, here or not.
FREE: Final = frozenset({"join", "evict", "leave", "flush", "note_restore"})
NO_CLAIM: Final = Fence("").epoch
STEP_S: Final = 2 * LEASE_MS / 1000  # so long after a step of the store's clock leases differ
DOUBT_S: Final = 2 * RENEW_MS / 1000 + 5  # a host writes once in every renewal
# A host that has come back renews once before it sees the others; its whole lease of watching can
# end just after a renewal, so that it evicts at the next one.
FREE_AFTER_S: Final = (LEASE_MS + 3 * RENEW_MS) / 1000 + 5


@dataclass(slots=True)
class FleetConsent(Consent):
    """What people allowed; an action whose end was not heard may still be carried out."""

    @contextmanager
    def withdrawal(self) -> Iterator[None]:
        """Let a proposal be taken away meanwhile, and later if the answer was not heard."""
        self.withdrawing += 1
        try:
            yield
        except AnswerLost:
            raise
        except DulyError:
            self.withdrawing -= 1
            raise
        else:
            self.withdrawing -= 1


@dataclass(frozen=True, slots=True)
class Paused:
    """A host that stands still for longer than its lease."""

    host_id: str
    since_s: float


@dataclass(slots=True)
class FleetOracle:
    """Says what is wrong with leases and claims."""

    members: list[Member]
    problems: list[str]
    stepped_s: float = -STEP_S  # when the clock of the store was set, or the store lost commits
    forgot_s: float = -STEP_S  # when the store lost commits
    _paused: Paused | None = None
    _doubtful: tuple[str, int, float] | None = None  # a host, its epoch, and since when
    _unwell_since: dict[str, float] = field(default_factory=dict)
    _closing_s: dict[str, float] = field(default_factory=dict)  # when it was last seen to close

    def see_commit(self, commit: Commit) -> None:
        """Look at a write."""
        before, after = commit.before, commit.after
        if commit.verb not in FREE and commit.host_id not in before.hosts:
            self._say(f"{commit.verb} of host {commit.host_id}, which was evicted, was committed")
        if after.epoch != before.epoch + (commit.verb == "claim"):
            self._say(f"{commit.verb} has made epoch {after.epoch} of {before.epoch}")
        if commit.fence is not None and commit.fence.epoch != NO_CLAIM:
            self._see_fence(commit, commit.fence)
        if after.holder != before.holder and before.holder in before.hosts:
            self._say(f"{after.holder} has taken the workflow from {before.holder}, which is here")
        member = next((each for each in self.members if each.host_id == commit.host_id), None)
        if commit.verb == "claim" and member is not None and member.lacks_now:
            self._say(f"host {commit.host_id} claims what it has no tool for")
        if commit.verb == "join" and member is not None and member.lease.was_sending:
            self._say(f"host {commit.host_id} lapsed with a send out, and comes as another")
        if commit.verb == "leave" and member is not None and member.is_sending:
            self._say(f"host {commit.host_id} leaves while a send is out")
        if commit.verb == "renew" and (before.hosts[commit.host_id] or 0) <= commit.clock_ms:
            self._say(f"the lease of {commit.host_id} was over and was renewed")
        if commit.verb == "evict":
            for host_id in before.hosts.keys() - after.hosts.keys():
                self._see_evicted(host_id, commit)

    def _see_fence(self, commit: Commit, fence: Fence) -> None:
        epoch, holder = commit.before.epoch, commit.before.holder
        if fence.epoch != epoch:
            self._say(f"{commit.verb} was committed under {fence}, in {epoch}")
        elif holder != commit.host_id:
            self._say(f"{commit.verb} of {commit.host_id}, and {holder} has the claim")

    def see_pause(self, member: Member, now_s: float) -> None:
        """Note that a host stands still for longer than its lease."""
        self._paused = Paused(member.host_id, now_s)

    def see_wake(self, seen: FleetSeen) -> None:
        """See that another host has taken the place of the one that goes on now."""
        assert self._paused is not None
        if self._paused.host_id in seen.hosts:
            self._say(f"host {self._paused.host_id} was stopped past its lease, and is here")

    def see_first_byte(self, member: Member, ago_s: float, now_s: float) -> None:
        """Look at a send whose first byte leaves, so long after its host looked at its lease."""
        if ago_s > LONG_TIMEOUT_S:
            self._say(f"host {member.number} sends when the time of its tool is over")
        paused = self._paused
        is_paused = paused is not None and paused.host_id == member.host_id
        if paused is not None and is_paused and now_s - ago_s > paused.since_s:
            self._say(f"host {member.number} was stopped past its lease, and begins a send")

    def see_riders_lost(self, lost: Sequence[Kept], seen: FleetSeen, now_s: float) -> None:
        """Note which host has a claim that it must not rely on any more."""
        riders = (each for each in lost if each.durability is not Durability.BARRIER)
        told = {each.commit.host_id for each in riders if each.is_told}
        is_relied_on = any(self._relies(each, seen.epoch) for each in self.members)
        if seen.holder in told and is_relied_on:
            self._doubtful = (seen.holder, seen.epoch, now_s)

    def _relies(self, member: Member, epoch: int) -> bool:
        held = member.host.desk.engine._worker.claims._fences.values()
        return any(each.epoch == epoch for each in held)

    def _see_doubtful(self, now_s: float) -> None:
        if self._doubtful is None:
            return
        host_id, epoch, since_s = self._doubtful
        for member in self.members:
            if member.host_id != host_id or not member.is_well:
                continue
            since_s = max(since_s, member.calm_since_s)
            if now_s - since_s > DOUBT_S and self._relies(member, epoch):
                self._say(f"host {host_id} was told of riders that are lost, and goes on")

    def _see_evicted(self, host_id: str, commit: Commit) -> None:
        lease_until = commit.before.hosts[host_id]
        if lease_until is None or lease_until > commit.clock_ms:
            self._say(f"host {host_id} was evicted, and its lease was not over")
        for member in self.members:
            if member.host_id != host_id:
                continue
            # A server that lost a renewal shows a lease that is over; what was held is paused.
            # A host that found it out cannot leave, either.
            if member.env._loop.time() - self.forgot_s < STEP_S:
                continue
            if member.is_up and member.lease.left_ms > 0:
                self._say(f"host {host_id} is alive, and was declared dead")
            if member.is_closing and not member.points.is_dead and not member.is_hindered:
                self._say(f"host {host_id} waits for its sends, and was declared dead")

    def see_check(self, member: Member, seen: FleetSeen, clock_ms: int, now_s: float) -> None:
        """Look at a send whose host has this moment looked whether it may begin."""
        if member.host_id not in seen.hosts:
            self._say(f"host {member.host_id} was evicted, and begins a send")
            return
        if seen.holder != member.host_id:
            self._say(f"host {member.host_id} begins a send, and {seen.holder} has the workflow")
        left_ms = (seen.hosts[member.host_id] or 0) - clock_ms
        if left_ms < SEND_LEFT_MS and now_s - self.stepped_s > STEP_S:
            self._say(f"host {member.host_id} begins a send with {left_ms} ms of its lease")

    def see_well(self, member: Member) -> None:
        """Note that a host goes on, be it for less than a look: it may have renewed its lease."""
        if member.is_well:
            self._unwell_since.pop(member.host_id, None)

    def look(self, seen: FleetSeen, clock_ms: int, now_s: float) -> None:
        """Look, every second, whether what is held by a host that does nothing becomes free."""
        self._see_doubtful(now_s)
        unwell = {each.host_id for each in self.members if not each.is_well}
        known = {each.host_id for each in self.members}
        for host_id in seen.hosts:
            if host_id in unwell or host_id not in known:
                self._unwell_since.setdefault(host_id, now_s)
            else:
                self._unwell_since.pop(host_id, None)
        if now_s - self.stepped_s > STEP_S:
            self._compare(seen, clock_ms)
        is_watched = any(
            each.is_well and now_s - each.calm_since_s > FREE_AFTER_S for each in self.members
        )
        holder = seen.holder or ""
        since_s, limit_s = self._unwell_since.get(holder, now_s), FREE_AFTER_S
        if any(each.is_closing and each.host_id == holder for each in self.members):
            self._closing_s[holder] = now_s
            limit_s += CLOSE_S  # it waits for its sends
        else:  # it renewed its lease while it waited, and perhaps could not leave after that
            since_s = max(since_s, self._closing_s.get(holder, since_s))
        is_held = seen.holder in seen.hosts and now_s - since_s > limit_s
        is_clear = now_s - self.stepped_s > FREE_AFTER_S
        if is_watched and is_held and is_clear:
            self._say(f"the workflow is held by {seen.holder}, which does nothing")

    def _compare(self, seen: FleetSeen, clock_ms: int) -> None:
        """See that no host believes in its lease for longer than the store does."""
        for member in self.members:
            lease_until = seen.hosts.get(member.host_id)
            if lease_until is None or member.points.is_dead:
                continue  # a process that was killed counts on nothing
            if member.lease.left_ms > max(0, lease_until - clock_ms):
                self._say(f"host {member.host_id} counts on more than its lease")

    def _say(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)
