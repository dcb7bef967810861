"""The mail becomes a row on DBOS: a workflow of one step, its default store."""

from __future__ import annotations

import time

from dbos import DBOS, DBOSConfig  # type: ignore[import-not-found]

from bench.crash_window import effect

WAIT_S = 60.0

# Without a database URL DBOS keeps a SQLite file in the folder it was started in.
DBOS(config=DBOSConfig(name="crash-window"))


@DBOS.step(retries_allowed=not effect.IS_LOOKED_UP)  # type: ignore[untyped-decorator]
def write() -> None:
    effect.look_and_write(DBOS.workflow_id)


@DBOS.workflow()  # type: ignore[untyped-decorator]
def mail_to_row(mail: str) -> None:
    write()


if __name__ == "__main__":
    DBOS.launch()
    if effect.PLACE:
        mail_to_row(effect.MAIL)
    statuses: set[str] = set()
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end and not statuses & {"SUCCESS", "ERROR"}:
        time.sleep(0.1)
        statuses = {each.status for each in DBOS.list_workflows()}
    effect.say(f"workflow {', '.join(sorted(statuses))}")
    DBOS.destroy()
