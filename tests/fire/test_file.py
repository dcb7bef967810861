"""The file under a running host: taken away, and wanted by a second host."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from duly import errors
from tests.fire.process import Flow
from tests.fire.stand import Fire, until

NAME: Final = "mail to row"

Light = Callable[..., Fire]


def files(fire: Fire) -> list[Path]:
    return [fire.store, fire.store.with_name(fire.store.name + "-wal")]


def away(path: Path) -> Path:
    return path.with_name(path.name + ".away")


@pytest.mark.parametrize("which", [0, 1])
def test_a_removed_file_is_noticed_at_the_next_barrier(light: Light, which: int) -> None:
    """H3, L2: a deleted file takes every write without an error; nobody is told it was kept."""
    fire = light(Flow(NAME, "asked"))
    with fire.start() as host:
        host.ready()
        host.publish(NAME, "m1")
        fire.finish(host, {NAME: {"m1"}})
        path = files(fire)[which]
        path.unlink()
        for mail in ("m2", "m3"):
            refused = host.publish(NAME, mail)
            assert issubclass(getattr(errors, refused["kind"]), errors.StoreUnavailable)
            assert f"{path} was removed while it was open" in refused["error"]
    assert fire.outside.rows == ["m1"]


def test_a_file_that_was_away_comes_back_with_all_that_was_acknowledged(light: Light) -> None:
    """H3, L3: it goes while a call is out; the next host on it asks, and makes none again."""
    fire = light(Flow(NAME, "patient"))
    with fire.start() as host:
        host.ready()
        fire.outside.behave("held")
        assert host.publish(NAME, "m1") == {"acknowledged": "new"}
        assert host.publish(NAME, "m2") == {"acknowledged": "new"}
        until(lambda: fire.outside.rows == ["m1"], "the effect")
        for path in files(fire):
            path.rename(away(path))
        assert "was removed while it was open" in host.publish(NAME, "m3")["error"]
    fire.outside.ask("release")  # not before: the answer would let it record m2's send, unsent
    for path in files(fire):
        away(path).rename(path)
    with fire.start() as host:
        host.ready()
        host.publish(NAME, "m3")
        seen = fire.finish(host, {NAME: {"m1", "m2", "m3"}})
        fire.check(seen, {NAME: {"m1", "m2", "m3"}})
        host.close()
    fire.check_file()


def test_a_second_host_is_told_who_has_the_file_and_gets_it_when_the_first_is_killed(
    light: Light,
) -> None:
    """H1: refused by name, without harm to the first; a dead holder holds nothing."""
    fire = light(Flow(NAME, "asked"))
    with fire.start() as first:
        first.ready()
        with fire.start() as second:
            second.until(lambda: second.greeting is not None, "a refusal")
            assert second.greeting is not None
            assert second.greeting["kind"] == "StoreInUse"
            told = f"another host holds this store (process {first.id}). Stop that host"
            assert told in second.greeting["refused"]
        assert first.publish(NAME, "m1") == {"acknowledged": "new"}
    with fire.start() as third:
        third.ready()
        seen = fire.finish(third, {NAME: {"m1"}})
        fire.check(seen, {NAME: {"m1"}})
        third.close()
