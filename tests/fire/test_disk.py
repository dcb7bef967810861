"""A disk that takes nothing more, and then takes again; for real, by the limit of a process.

A process whose files may grow to zero bytes cannot write at all: the kernel says so to SQLite,
which says so to the store. Reading goes on.
"""

from __future__ import annotations

import random
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from tests.engine.crash_window.script import INBOX
from tests.fire.process import Flow
from tests.fire.stand import Fire, Hosted, until

NAME: Final = "mail to row"
FULLS: Final = 15
SEED: Final = 7
MOMENT_S: Final = 0.15

Light = Callable[..., Fire]


@contextmanager
def full_disk(host: Hosted) -> Iterator[None]:
    resource.prlimit(host.id, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.prlimit(host.id, resource.RLIMIT_FSIZE, unlimited)


def test_a_full_disk_is_said_and_nothing_is_acknowledged(light: Light) -> None:
    """H3: the sender is told what is wrong with which file; what was acknowledged stays."""
    fire = light(Flow(NAME, "asked"))
    with fire.start() as host:
        host.ready()
        assert host.publish(NAME, "m1") == {"acknowledged": "new"}
        fire.finish(host, {NAME: {"m1"}})
        with full_disk(host):
            refused = host.publish(NAME, "m2")
            assert refused["kind"] == "StoreUnavailable"
            assert str(fire.store) in refused["error"]
            assert "the disk returned an error; nothing was written" in refused["error"]
            inbox = host.ask("look")["events"][NAME][INBOX]
            assert {mail: each[0] for mail, each in inbox.items()} == {"m1": "consumed"}
        assert host.publish(NAME, "m2") == {"acknowledged": "new"}
        seen = fire.finish(host, {NAME: {"m1", "m2"}})
        fire.check(seen, {NAME: {"m1", "m2"}})
        host.close()
    fire.check_file()


def test_an_answer_that_cannot_be_written_is_not_asked_for_by_a_second_call(light: Light) -> None:
    """H3, L3: the disk is full when the answer comes; with room again the ledger finds out."""
    fire = light(Flow(NAME, "patient"))
    with fire.start() as host:
        host.ready()
        fire.outside.behave("held")
        host.publish(NAME, "m1")
        until(lambda: fire.outside.rows == ["m1"], "the effect")
        with full_disk(host):
            fire.outside.ask("release")
            host.until(
                lambda: any("the disk returned an error" in line for line in host.logs),
                "a complaint",
            )
            assert [each["status"] for each in host.ask("look")["mutations"]] == ["in_flight"]
        seen = fire.finish(host, {NAME: {"m1"}})
        fire.check(seen, {NAME: {"m1"}})
        host.close()
    fire.check_file()


def test_a_disk_that_is_full_again_and_again_loses_and_repeats_nothing(light: Light) -> None:
    """H3, L2, C11: whatever transaction it strikes, it is whole or was never there."""
    flows = (Flow("first", "asked"), Flow("other", "keyed", "python"))
    fire = light(*flows)
    dice = random.Random(SEED)
    mails: dict[str, set[str]] = {flow.name: set() for flow in flows}
    with fire.start() as host:
        host.ready()
        fire.outside.behave(seed=SEED)
        for number in range(FULLS):
            flow, mail = dice.choice(flows), f"m{number}"
            until(lambda f=flow, m=mail: "acknowledged" in host.publish(f.name, m), "room")  # type: ignore[misc]
            mails[flow.name].add(mail)
            time.sleep(dice.uniform(0, MOMENT_S))
            with full_disk(host):
                time.sleep(dice.uniform(0, MOMENT_S))
        fire.outside.behave()
        seen = fire.finish(host, mails)
        fire.check(seen, mails)
        host.close()
    fire.check_file()
