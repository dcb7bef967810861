"""What a store cannot do, and what became of its file or server: a pair of sentences for each code.

The form of a pair is that of `error_state.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from duly.words.error_state import Pair

STORES: Final[Mapping[str, Pair]] = {
    "changed_meanwhile": (
        (
            "{subject} is no longer in the state this was decided on[: it is {status}]"
            "[: it is at attempt {attempts}, not {attempt}]; nothing was changed."
        ),
        "Look at it again, then decide anew.",
    ),
    "done_already": ("Action {subject} was done already; nothing was changed.", ""),
    "leased": (
        "Workflow {subject} is held by another host until its lease ends.",
        "Nothing has to be done: that host works on it.",
    ),
    "waits_for_host": (
        (
            "Workflow {subject} is not begun yet: the database server was started again, and host "
            "{host} has not compared what it was told before."
        ),
        (
            "Wait: the host does so within seconds. If it is gone, the others wait for it for "
            "ten minutes at most."
        ),
    ),
    "lapsed": (
        "The lease of host {subject} is over; it writes nothing more.",
        "The host joins again by itself under another id; then try again.",
    ),
    "held_elsewhere": (
        "Another host holds workflow {subject} and knows when the call has ended.",
        "Say it at that host.",
    ),
    "needs_machine": (
        "Workflow {subject} uses files of one machine[, {machine}], and no host there holds it.",
        (
            "Start Duly on that machine and say it there, or wait until that machine has been "
            "gone for ten minutes."
        ),
    ),
    "needs_tool": (
        "This host lacks {tools:list}, and so it cannot tell when the call of {subject} ended.",
        (
            "Say it at a host that has the connector, or wait until no host has had it for ten "
            "minutes."
        ),
    ),
    "claim_lost": (
        "This host has lost its claim on workflow {subject}; it sends nothing.",
        "Nothing has to be done: the host that claims the workflow next continues.",
    ),
    "fenced": (
        "Workflow {subject} is in its epoch {epoch}, not {given}: another host has taken it over.",
        "Nothing has to be done: that host continues with it.",
    ),
    "store_in_use": (
        "{subject}: another host holds this store[ (process {process})].",
        "Stop that host, or name another file.",
    ),
    "open_here": (
        "{subject}: this process has this file open already, under this name or another.",
        "Close that host, or name another file.",
    ),
    "store_newer": (
        (
            "{subject}: written by a newer Duly (its schema is {found}, this Duly knows {known}); "
            "nothing was changed."
        ),
        "Upgrade Duly.",
    ),
    "store_forked": (
        (
            "{subject}: this process was forked from the one that has the store open, and only "
            "that one can use it."
        ),
        "Open it in a process that was not forked from a host.",
    ),
    "store_closed": ("{subject}: the store is closed.", "Open it again."),
    "store_stopped": (
        "{subject}: the store stopped; what it had not yet confirmed may be lost ({cause}).",
        "Open it again.",
    ),
    "store_removed": (
        "{subject} was removed while it was open.",
        "Bring it back and open it again.",
    ),
    "store_replaced": (
        "{subject} was replaced by another file while it was open.",
        "Open it again.",
    ),
    "log_of_another": (
        "{subject} is the log of another database, or of another time; nothing was written.",
        "Move it away, or bring back the one that belongs here, and open again.",
    ),
    "another_program": (
        "{subject}: a SQLite database of another program; nothing was changed.",
        "Name another file.",
    ),
    "no_sqlite_file": (
        "{subject:quoted} names no SQLite file.",
        "Write sqlite:///relative.db or sqlite:////absolute.db.",
    ),
    "server_unreachable": (
        "{subject}: the server cannot be used now ({cause}).",
        "Check that it runs and that the URL is right.",
    ),
    "server_slow": (
        "{subject}: the server took too long; nothing was written ({cause}).",
        "Check what the server waits for.",
    ),
    "server_another": (
        "{subject}: the database has tables of another program; nothing was changed.",
        "Name an empty database.",
    ),
    "server_schema_older": (
        (
            "{subject}: {hosts} hosts of an older Duly are at work (its schema is {found}; this "
            "one brings it to {known}); nothing was changed."
        ),
        "Stop them, then start this one again.",
    ),
    "service_moved": (
        (
            "Connector {subject:quoted} is at {now} now, and {count} of its changes at {before} "
            "are not settled; the new place would give a wrong answer about them."
        ),
        "Write the old url back, wait until they are settled, then change it.",
    ),
    "server_not_empty": (
        "{subject}: the database already has {what}; nothing was moved.",
        "Name an empty database, and stop its hosts.",
    ),
    "not_moved": (
        "The server did not keep every row of {subject:quoted}; nothing was moved.",
        "Report it, and go on with the file.",
    ),
    "not_sealed_yet": (
        "{subject} comes from an older Duly, and its rows are not sealed yet; nothing was moved.",
        "Start a host on the file, stop it, then move it.",
    ),
    "moved_already": (
        "The store of this project is on a server already.",
        "There is nothing to move.",
    ),
    "no_server": (
        "{subject:quoted} names no PostgreSQL server.",
        "Write postgresql://user@host/database.",
    ),
    "no_store_yet": (
        "{subject}: there is no store yet, so there is nothing to move.",
        "Write the URL of the server into duly.toml.",
    ),
    "store_older": (
        (
            "{subject}: the server no longer has writes that it had confirmed; everything is "
            "paused, as after a restore."
        ),
        "Look at what was sent since then, then resume.",
    ),
    "disk_full": (
        "{subject}: the disk is full; nothing was written ({cause}).",
        "Free some space.",
    ),
    "disk_error": (
        "{subject}: the disk returned an error; nothing was written ({cause}).",
        "Check the disk.",
    ),
    "disk_without_log": (
        "{subject}: this disk cannot hold a write-ahead log.",
        "Use a local disk.",
    ),
    "no_memory": (
        "{subject}: there is no memory left; nothing was written ({cause}).",
        "Free some memory.",
    ),
    "sqlite_gave_up": ("{subject}: SQLite gave up; nothing was written.", "Try again."),
    "database_busy": (
        (
            "{subject}: another program has the database open, under this name or another; nothing "
            "was written ({cause})."
        ),
        "End that program, then open the store again.",
    ),
    "database_read_only": (
        "{subject}: the database cannot be written; nothing was written ({cause}).",
        "Give this user the right to write to it.",
    ),
    "database_unreadable": (
        "{subject}: the database cannot be read; nothing was written ({cause}).",
        "Give this user the right to read it.",
    ),
    "database_cannot_open": (
        "{subject}: the database cannot be opened; nothing was written ({cause}).",
        "Check that its folder exists and can be written.",
    ),
    "database_damaged": ("{subject}: the database is damaged ({cause}).", "Restore a backup."),
    "not_a_database": (
        "{subject}: this is not a SQLite database ({cause}).",
        "Name another file, or restore a backup.",
    ),
    "unreadable": (
        "{subject:file} cannot be read: {cause:bare}.",
        "Check its name and its permissions.",
    ),
    "unwritable": (
        "{subject:file} cannot be written: {cause:bare}.",
        "Check its folder and its permissions.",
    ),
}
