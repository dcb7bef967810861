"""The mail becomes a row on huey: a task with retries in a SQLite queue, run by its consumer."""

from __future__ import annotations

from huey import SqliteHuey  # type: ignore[import-not-found]

from bench.crash_window import effect

huey = SqliteHuey(filename=str(effect.FOLDER / "huey.db"))


@huey.task(retries=2)  # type: ignore[untyped-decorator]
def write(mail: str) -> bool:
    effect.look_and_write(mail)
    return True
