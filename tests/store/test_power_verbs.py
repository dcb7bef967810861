"""Power cuts through the verbs of the store: what a verb confirmed is there, whole, in its order.

The same cuts as in test_power.py, before every single operation on the disk and in three ways,
while three workflows publish, prepare, send, record and commit through the store that ships.
"""

from __future__ import annotations

import asyncio
import os
from random import Random

import pytest

from duly.store import Store
from duly.store.sqlite import SqliteBackend, default_schema
from tests.breaks import number_of_commit, tenth_of_commit
from tests.store.mail import Office, facts
from tests.store.test_power import Confirm, Workload, examine
from verification.disk import Loss

CUTS_WANTED = 1_000
SEEDS = range(2)
# A commit tries one of them and looks at a quarter of its cuts, the next one perhaps at others;
# TEST_EVERY_CASE=1 tries both and looks at every cut.
IS_WHOLE = bool(os.environ.get("TEST_EVERY_CASE"))
CHOSEN = SEEDS if IS_WHOLE else (tenth_of_commit() % len(SEEDS),)
EVERY = 1 if IS_WHOLE else 4
MAILS = 2
CONTROLS_LOOK_AT_EVERY = 16
DIRECT_LOOK_AT_EVERY = 4 * EVERY
SCHEMA = default_schema()


def verbs() -> Workload:
    """Make the workload; the order in which the verbs returned is the order of their commits."""
    order: list[str] = []

    async def play(backend: SqliteBackend, chance: Random, confirm: Confirm) -> None:
        office = Office(Store(backend), confirm)
        await office.work(chance, MAILS)
        order.extend(office.returned)

    async def read(backend: SqliteBackend) -> list[str]:
        return sorted(await facts(Store(backend)), key=order.index)

    return Workload(SCHEMA, play, read)


def test_a_verb_that_runs_inside_its_call_loses_nothing_either() -> None:
    """L2, H3: its caller may return before one that waits, so the order is not looked at."""
    findings = asyncio.run(examine(verbs(), 0, is_direct=True, every=DIRECT_LOOK_AT_EVERY))
    assert findings.lost + findings.damaged == []


@pytest.mark.parametrize("seed", CHOSEN)
def test_every_verb_survives_every_power_cut_whole_and_in_order(seed: int) -> None:
    """L2, H3: nothing confirmed is lost, no verb is half done, and the file is sound."""
    first = number_of_commit() // len(SEEDS) % EVERY
    findings = asyncio.run(examine(verbs(), seed, every=EVERY, first=first))
    assert findings.problems == []
    assert findings.cuts * EVERY >= CUTS_WANTED * len(Loss) / len(SEEDS) - EVERY


def test_control_without_the_sync_a_sent_call_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """L2: with its barrier a rider, a call would leave without its row; this test sees it."""
    monkeypatch.setattr("duly.store.writer.Writer._sync", lambda writer: None)
    findings = asyncio.run(examine(verbs(), 0, every=CONTROLS_LOOK_AT_EVERY))
    assert any("sent" in lost for lost in findings.lost)
    assert not findings.damaged


def test_control_a_disk_that_orders_nothing_is_caught() -> None:
    """L2, H3: with `synchronous=off` verbs are lost or the file is damaged."""
    findings = asyncio.run(examine(verbs(), 0, synchronous="off", every=CONTROLS_LOOK_AT_EVERY))
    assert findings.problems
