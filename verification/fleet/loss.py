"""What must hold when a server has lost what it had confirmed (H10).

Law 1  If the holder of the workflow was told of a barrier that is lost, the workflow is paused and
       says since when it is blind, whether that host is alive or dead.
Law 2  No send begins after the loss. One whose row was written before it may still leave.
       One that had left before does not leave again if the server has forgotten its row.
Law 3  What only another host was told, which is gone since, no host can know; nothing is judged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from duly.connectors.base import Call
from duly.store.base import Durability
from verification.fleet.server import OF_LEASES, Commit, FleetSeen, Kept

UNCOUNTED = OF_LEASES | {"evict", "enter_slot", "flush"}


def is_missed(lost: Kept) -> bool:
    """Tell whether a host was told that this commit is there for good."""
    is_of_work = lost.commit.verb not in UNCOUNTED
    return lost.is_told and is_of_work and lost.durability is Durability.BARRIER


def is_known(lost: Kept) -> bool:
    """Tell whether the host that was told held the workflow."""
    return is_missed(lost) and lost.commit.after.holder == lost.commit.host_id


@dataclass(slots=True)
class Loss:
    """Looks at a fleet whose store has forgotten."""

    say: Callable[[str], None]
    sent: set[str]  # keys of calls whose send was written before
    left: frozenset[str]  # keys of calls whose row is forgotten, and whose first byte had left
    is_known: bool
    is_resumed: bool = False
    was_blind: bool = False

    @classmethod
    def of(
        cls, lost: Sequence[Kept], say: Callable[[str], None], sent: set[str], left: set[str]
    ) -> Loss:
        """Begin to look when these commits are lost."""
        is_forgotten = any(each.commit.verb == "send" for each in lost)
        return cls(say, sent, frozenset(left if is_forgotten else ()), any(map(is_known, lost)))

    def see_commit(self, commit: Commit) -> None:
        """See that a person alone ends the pause, by an action that was on its way."""
        if commit.before.blind_since is not None and commit.after.blind_since is None:
            self.is_resumed = True
        self.was_blind |= commit.after.blind_since is not None

    def see_leave(self, call: Call, seen: FleetSeen) -> None:
        """Look at a call whose first byte is about to leave."""
        if self.is_known and call.key in self.left and not self.is_resumed:
            self.say(f"the store has forgotten that {call.tool} was sent, and it is sent again")
        if self.is_known and call.key not in self.sent and not self.is_resumed:
            blind = "and is paused" if self.was_blind else "and no host has noticed"
            self.say(f"the store has lost what it had confirmed {blind}: {call.tool} is sent")

    def look_at_the_end(self, seen: FleetSeen) -> None:
        """See that the loss was noticed."""
        if self.is_known and seen.blind_since is None and not self.is_resumed:
            self.say("the store has lost what it had confirmed, and no host has noticed")
