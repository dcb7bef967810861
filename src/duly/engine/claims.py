"""The workflows this host has claimed, and under which epoch (H2, H6).

Law 1  A fence comes from the host's own claim, never from the workflow's row: a host that was
       overtaken cannot know it by reading, so every write must be refused by itself.
Law 2  A host that has lost track of a run drops its claim. The next turn claims the workflow anew,
       and the run is found as one that was left under an earlier claim (R7).
Law 3  A send begins only under a claim that the host has at that moment.
Law 4  A claim is taken when a workflow has something to do, and kept until the host ends: an idle
       workflow costs nothing (S9). A host of a fleet takes what its tools can do, no more than its
       share of that, and gives back what is more, between two runs (H7).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Collection
from typing import TypedDict
from weakref import WeakValueDictionary

from duly.engine.lease import Lease
from duly.env import Env
from duly.errors import Fenced, Stale, StoreError
from duly.rules.share import Kin, Offers
from duly.store import Store
from duly.store.base import Fence
from duly.store.due import Outlook
from duly.store.turn import Able

log = logging.getLogger("duly.engine")


class DueSight(TypedDict, total=False):
    """For which host the store says what is due, and whether it could claim more."""

    host: str
    has_room: bool


class Claims:
    """What one host holds; it joins the store when it claims its first workflow."""

    def __init__(self, env: Env, store: Store, lease: Lease | None = None) -> None:
        self._env = env
        self._store = store
        self._lease = lease
        self._began_ms = env.monotonic_ms()
        self._host_id: str | None = None
        self._fences: dict[str, Fence] = {}
        self._left: dict[str, range] = {}  # the epochs under which this host lost track of runs
        self._taken_ms: dict[str, int] = {}  # when this host first claimed a workflow it holds
        self._kin: dict[str, Kin] = {}  # of each of these: which hosts can do it
        self._able: dict[str, tuple[str | None, Offers | None]] = {}  # the version it has tools for
        self._elsewhere: set[str] = set()  # held by other hosts when this one last asked
        self._awaited = ""  # the host for which all wait, once that was said
        # A workflow is not claimed twice at once; several are, and share a sync.
        self._claiming: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._joining = asyncio.Lock()  # nor does a host join twice

    async def take(self, workflow_id: str, *, for_person: bool = False) -> Fence | None:
        """Return the fence of a workflow, which is claimed if need be; None if another holds it.

        What a person waits for is asked for anew, and claimed beyond the share: no other host may
        ever claim it. A host that is not here any more gets `Fenced`: it has lapsed.
        """
        fence = self._fences.get(workflow_id)
        if fence is not None:
            return fence
        if workflow_id in self._elsewhere and not for_person:
            return None
        async with self._claiming.setdefault(workflow_id, asyncio.Lock()):
            if workflow_id not in self._fences:
                is_gone = self._lease is not None and workflow_id in self._lease.gone
                is_free = for_person or is_gone or workflow_id in self._taken_ms
                try:
                    fence = await self._claim(workflow_id, is_free=is_free)
                except Stale as error:
                    self._say_awaited(error)
                    self._elsewhere.add(workflow_id)
                    return None
                self._awaited = ""
                self._elsewhere.discard(workflow_id)
                self._taken_ms.setdefault(workflow_id, self._env.monotonic_ms())
                self._fences[workflow_id] = fence
            return self._fences[workflow_id]

    def _say_awaited(self, error: Stale) -> None:
        """Say once for which host all wait after a start of the server (H10)."""
        if error.code == "waits_for_host" and error.facts["host"] != self._awaited:
            self._awaited = str(error.facts["host"])
            log.warning("%s", error)

    def _held(self) -> Counter[Kin]:
        """Count what is held here, by who else can do it."""
        return Counter(map(self._kin_of, self._taken_ms))

    def _kin_of(self, workflow_id: str) -> Kin:
        """Return which hosts can do a workflow, as the last renewal or the claim has shown it."""
        assert self._lease is not None
        return self._lease.kin_of.get(workflow_id) or self._kin.get(workflow_id, Kin())

    @property
    def sight(self) -> DueSight:
        """As whom this host asks what is due; the host of a file sees everything (H6, H7)."""
        if self._lease is None or self._host_id is None:
            return {}
        has_room = self._lease.shares.has_any_room(self._held())
        return {"host": self._host_id, "has_room": has_room}

    def holds(self, workflow_id: str) -> bool:
        """Tell whether this host has claimed a workflow and not given it back."""
        return workflow_id in self._taken_ms

    def look_again(self, workflow_id: str | None = None) -> None:
        """Ask again for a workflow that another host held, or for all of them."""
        if workflow_id is None:
            self._elsewhere.clear()
        else:
            self._elsewhere.discard(workflow_id)

    async def hand_back(self, fence: Fence) -> None:
        """Give back a workflow, its open run too: this host stood in, or lacks a tool now (H7)."""
        assert self._lease is not None, fence
        host_id = self._host_id
        if host_id is None or self._fences.get(fence.workflow_id) != fence:
            return
        self.drop(fence.workflow_id, fence)
        self._taken_ms.pop(fence.workflow_id, None)
        self._left.pop(fence.workflow_id, None)
        if await self._store.release(host_id, fence, is_open=True):
            self._lease.tell(fence.workflow_id)

    def able(self, workflow_id: str) -> Able | None:
        """Return for which version this host is known to have all tools; the host of a file has."""
        if self._lease is None or self._host_id is None:
            return None
        version, offers = self._able.get(workflow_id, (None, None))
        return Able(self._host_id, version if offers == self._lease.offers() else None)

    def note_able(self, outlook: Outlook) -> None:
        """Remember that this host has all tools for this version, if that was looked at.

        While a run is open, its call may be all that counted.
        """
        if self._lease is not None and outlook.open_run is None and not outlook.lacking:
            self._able[outlook.fence.workflow_id] = outlook.version, self._lease.offers()

    async def give_back(self, busy: Collection[str]) -> None:
        """Give back what is more than the share, as far as no task works on it (H7)."""
        assert self._lease is not None
        over = self._lease.shares.find_over(self._held())
        for fence in [each for each in self._fences.values() if each.workflow_id not in busy]:
            host_id = self._host_id
            group = self._lease.shares.group(self._kin_of(fence.workflow_id))
            if host_id is None or not over.get(group):
                continue
            async with self._claiming.setdefault(fence.workflow_id, asyncio.Lock()):
                # A task may have begun to work on it while others were given back.
                if self._fences.get(fence.workflow_id) != fence or fence.workflow_id in busy:
                    continue
                del self._fences[fence.workflow_id]  # no send begins under it any more (law 3)
                if await self._store.release(host_id, fence):
                    over[group] -= 1
                    self._taken_ms.pop(fence.workflow_id, None)
                    self._left.pop(fence.workflow_id, None)
                    self._lease.tell(fence.workflow_id)
                elif self._host_id == host_id:
                    self._fences[fence.workflow_id] = fence

    async def _claim(self, workflow_id: str, *, is_free: bool) -> Fence:
        host_id = await self.join()
        try:
            fence = await self._claim_as(host_id, workflow_id, is_free=is_free)
        except Fenced:
            if self._lease is not None:
                self._lease.lapse(host_id)
                raise
            # This host has the lock of the file, and its row is not there: it comes anew (H6).
            if self._host_id == host_id:  # no other claim has found that out before
                log.error("host %s is not in the store any more; it joins again", host_id)
                self._host_id = None
            return await self._store.claim(await self.join(), workflow_id)
        self._able.pop(workflow_id, None)
        if self._host_id != host_id:  # it has lapsed meanwhile, and may be another host by now
            raise Fenced(code="lapsed", subject=host_id)
        return fence

    async def _claim_as(self, host_id: str, workflow_id: str, *, is_free: bool) -> Fence:
        """Claim a workflow, if it is within the share; what is free is taken beyond it (H7)."""
        if self._lease is None:
            return await self._store.claim(host_id, workflow_id)
        shares, held = self._lease.shares, self._held()

        def is_within(kin: Kin) -> bool:
            self._kin[workflow_id] = kin
            return is_free or shares.has_room(kin, held)

        return await self._store.claim(host_id, workflow_id, is_within=is_within)

    async def until_sendable(self, fence: Fence) -> None:
        """Return when a send may begin under a claim; raise `Fenced` if it is lost (law 3)."""
        if self._lease is not None:
            await self._lease.until_sendable()
        held = self._fences.get(fence.workflow_id)
        if held != fence or held.gone is not None:  # a host that stands in for a machine sends none
            raise Fenced(code="claim_lost", subject=fence.workflow_id)

    @property
    def is_of_fleet(self) -> bool:
        """Tell whether other hosts may hold what this one does not (H2)."""
        return self._lease is not None

    async def is_watched(self, workflow_id: str) -> bool:
        """Tell whether this host knows when earlier sends of a workflow have ended (L6).

        A host of a fleet knows it of what it has claimed; what no host holds is claimed for that.
        """
        return self._lease is None or await self.take(workflow_id, for_person=True) is not None

    def fence_of(self, workflow_id: str) -> Fence | None:
        """Return the claim that this host has on a workflow now, if it has one."""
        return self._fences.get(workflow_id)

    def drop(self, workflow_id: str, fence: Fence | None = None, *, is_fault: bool = False) -> None:
        """Forget a claim, or only this one: what was taken up under it is recovered.

        No host has died, so no crash is counted (R7); after a fault of ours one is, so that a run
        that brings it about each time is not tried for ever.
        """
        held = self._fences.get(workflow_id)
        if held is None or fence not in (None, held):
            return
        del self._fences[workflow_id]
        left = self._left.pop(workflow_id, range(0))
        if not is_fault:
            first = left.start if left.stop == held.epoch else held.epoch
            self._left[workflow_id] = range(first, held.epoch + 1)

    def drop_all(self) -> tuple[str, ...]:
        """Drop every claim: the store came back without riders of this host (H10); return which."""
        held = tuple(self._fences)
        for workflow_id in held:
            self.drop(workflow_id)
        return held

    def was_dropped(self, workflow_id: str, epoch: int | None) -> bool:
        """Tell whether a claim was this host's own, and given up though the host is well (R7)."""
        return epoch in self._left.get(workflow_id, ())

    def forget(self) -> None:
        """Forget everything: the host has lapsed, and comes back as another."""
        self._host_id = None
        self._fences.clear()
        self._left.clear()
        self._taken_ms.clear()
        self._kin.clear()
        self._able.clear()
        self._elsewhere.clear()

    def over_since_ms(self, workflow_id: str, timeout_ms: int) -> int:
        """Return since when no earlier holder of a workflow sends any more, by our clock (L6).

        The lock of a file is free when its host is dead. A lease can be over while the host that
        had it is only stopped: what it began before may take as long as the tool may.
        """
        if self._lease is None:
            return self._began_ms
        taken_ms = self._taken_ms.get(workflow_id, self._env.monotonic_ms())
        return taken_ms + timeout_ms

    async def list_held_runs(self) -> tuple[str, ...]:
        """List the runs that were taken up here and are not stopped."""
        if self._host_id is None:
            return ()
        return await self._store.list_held_runs(self._host_id)

    async def leave(self) -> None:
        """Give everything back: the host ends, and no send of it is out (L6)."""
        host_id = self._host_id
        self.forget()
        if host_id is None:
            return
        try:
            await self._store.leave(host_id)
        except StoreError as error:
            log.warning(
                "the row of this host could not be deleted: %s", error
            )  # its lease ends, or its lock

    async def join(self) -> str:
        """Come as a host, if that is not done yet; return its id."""
        async with self._joining:
            if self._host_id is None:
                self._host_id = await self._join()
            return self._host_id

    async def _join(self) -> str:
        if self._lease is not None:
            return await self._lease.join()
        host_id = self._env.new_id("host")
        await self._store.join(host_id, now=self._env.now_ms())
        return host_id
