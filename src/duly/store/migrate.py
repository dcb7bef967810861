"""Gives a database its schema: makes a new one, refuses a newer one, brings an older one up.

Law: a database has the whole schema of one version or nothing at all, for making it and bringing
it up are one transaction each (H4). Before an older database is changed it is copied.

SQLite keeps two numbers in a file's header: whose file it is (`application_id`) and which schema
it has (`user_version`). They change with the schema, in its transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import apsw

from duly.errors import IllegalTransition, StoreError, StoreNewer
from duly.store import queries

SCHEMA_VERSION = 8
APPLICATION_ID = 0x44554C59  # "DULY"

# The text that brings a database from this version to the next.
MIGRATIONS: Mapping[int, str] = {
    1: queries.read("from_1"),
    2: queries.read("from_2"),
    3: queries.read("from_3"),
    4: queries.read("from_4"),
    5: queries.read("from_5"),
    6: queries.read("from_6"),
    7: queries.read("from_7"),
}

# The versions whose step to the next one only adds: new tables, indexes, and columns that may be
# null. Hosts of that version work on the next one as they are (H11).
ADDITIVE: frozenset[int] = frozenset({6, 7})


def bring_up(
    connection: apsw.Connection,
    schema: str,
    *,
    path: str,
    copy: Callable[[int], None],
    version: int = SCHEMA_VERSION,
    migrations: Mapping[int, str] = MIGRATIONS,
) -> None:
    """Give the database the schema of `version`; `copy` keeps an older one as it was."""
    found = check_version(connection, path, version)
    if found is None:
        _apply(connection, [schema], version)
    elif found != version:
        steps = find_steps(found, version, migrations)
        copy(found)
        _apply(connection, steps, version)


def check_version(connection: apsw.Connection, path: str, version: int) -> int | None:
    """Return the version of a database, nothing for an empty file; refuse a newer one."""
    found = version_of(connection, path)
    if found is not None and found > version:
        raise StoreNewer(
            code="store_newer", subject=str(path), facts={"found": found, "known": version}
        )
    return found


def version_of(connection: apsw.Connection, path: str) -> int | None:
    """Return the version of a database of ours, nothing for an empty file; refuse another's."""
    if connection.pragma("application_id") == APPLICATION_ID:
        version: int = connection.pragma("user_version")
        return version
    # The schema version counts every change of the schema: zero means that no table was made.
    if not any(map(connection.pragma, ("application_id", "user_version", "schema_version"))):
        return None
    raise StoreError(code="another_program", subject=str(path))


def find_steps(found: int, version: int, migrations: Mapping[int, str]) -> list[str]:
    """Return the texts that lead from one version to another; refuse a gap."""
    missing = [step for step in range(found, version) if step not in migrations]
    if missing:
        raise IllegalTransition(f"no migration leads from schema {missing[0]} to {missing[0] + 1}")
    return [migrations[step] for step in range(found, version)]


def oldest_able(found: int, version: int, oldest: int | None, additive: Collection[int]) -> int:
    """Return the oldest version whose hosts work on `version`, after the steps from `found`.

    >>> oldest_able(6, 8, None, {6, 7}), oldest_able(6, 8, 5, {7}), oldest_able(6, 7, 5, {6})
    (6, 7, 5)
    """
    able = found if oldest is None else oldest
    return max((step + 1 for step in range(found, version) if step not in additive), default=able)


def _apply(connection: apsw.Connection, texts: list[str], version: int) -> None:
    connection.execute("begin immediate")
    try:
        for text in texts:
            connection.execute(text).fetchall()
        connection.pragma("application_id", APPLICATION_ID)
        connection.pragma("user_version", version)
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise
