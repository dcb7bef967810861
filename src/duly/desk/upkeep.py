"""Looking after a host's store: retention, backups, checks, and unreadable secrets (H5, A5).

Law 1: none of it stops the host: each takes the store for moments only, and runs go on.
Law 2: what it did is written down (A6); what it could not do left everything as it was.
Law 3: a store that was restored from a backup, or has lost its log, says so until a person has
       resumed its workflows.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import Annotated, Final, TypeVar

from duly.desk.base import USER, Desk, HasDesk
from duly.desk.page import read_names
from duly.desk.proof import Changed, Verified
from duly.desk.record import Backup, Secret
from duly.engine import upkeep
from duly.env import Env
from duly.errors import Invalid, NotFound, RequestRefused, see
from duly.rules.blind import BlindCause
from duly.rules.retention import Tidied
from duly.rules.schedule import moment
from duly.rules.value import nearest
from duly.rules.verb import Crosses, Scope, WholePath, act, question
from duly.store import Store, backup, people
from duly.store.base import Durability
from duly.store.check import Problems, check
from duly.store.record import Action
from duly.store.sqlite import SqliteBackend
from duly.store.upkeep import count_forgotten, list_blind
from duly.words.seal import say_blind

DULY: Final = "duly"  # who acts where the host itself does

FILES_MAX: Final = 4  # how often a file is written again

R = TypeVar("R")

log = logging.getLogger("duly.store")


class Keeping(HasDesk):
    """What a person does to the store as a whole; `by` says who."""

    @act(scope=Scope.ADMIN, example={})
    async def tidy(self, *, by: str = USER) -> Tidied:
        """Remove finished history older than the policy keeps, now; nothing open is touched.

        A host that serves does it once a day by itself.
        """
        # Rules: H5.
        desk = self._desk()
        action = desk.action(by, "tidy")
        days = desk.parts.policy.retention_days
        if days is None:
            raise RequestRefused(code="keeps_everything")

        async def act() -> Tidied:
            await desk.parts.store.note_act(target=None, action=action, now=desk.now_ms)
            return await upkeep.tidy(desk.parts, days)

        return await desk.complete(act)

    @act(scope=Scope.ADMIN, example={"path": "/backups/monday.db"})
    async def backup(
        self, path: Annotated[str | PathLike[str], Crosses(WholePath)], *, by: str = USER
    ) -> Backup:
        """Copy the store as it is now to a file that is not there yet, while runs go on.

        Secrets stay sealed in it; the key is not copied.
        """
        # Rules: H5.
        desk = self._desk()
        action = desk.action(by, "backup")
        target = path_of(path)
        return await back_up_to(desk, target, action)

    @question(follow=False, example={})
    async def verify(self) -> Verified:
        """Check the whole store as it is at this moment, while runs go on.

        It names every row that was changed. `unseen` lists what it cannot see.
        """
        # Rules: H5, L15.
        desk = self._desk()
        found = await desk.complete(partial(_find_problems, desk))
        ids = {each.workflow_id for each in found.flawed}
        names = await desk.ask(lambda tx: read_names(tx, ids))
        changed = tuple(
            # Another program may have written a workflow that is not there.
            Changed(each.id, names.get(each.workflow_id, each.workflow_id), each.flaw, each.parts)
            for each in found.flawed
        )
        return Verified(not found.texts and not changed, found.texts, changed, found.imported)

    @question(scope=Scope.ADMIN, example={})
    async def secrets(self) -> tuple[Secret, ...]:
        """List the secrets by name; of one that cannot be read, say why, and what to do."""
        desk = self._desk()
        rows = await desk.ask(people.list_secrets)
        vault = desk.vault
        ask = (lambda *_: None) if vault is None else vault.problem
        return tuple(Secret(row.connector, row.name, ask(row.connector, row.name)) for row in rows)

    @act(scope=Scope.ADMIN, example={"connector": "mailbox", "name": "password"})
    async def drop_secret(self, connector: str, name: str, *, by: str = USER) -> None:
        """Forget a secret, also an unreadable one; a call that needs it asks for it."""
        # Rules: A5.
        desk = self._desk()
        action = desk.action(by, "drop_secret")
        known = [f"{each.connector}.{each.name}" for each in await self.secrets()]
        if f"{connector}.{name}" not in known:
            raise NotFound(
                code="no_secret",
                subject=f"{connector}.{name}",
                facts=nearest(f"{connector}.{name}", known),
                next=see("secrets"),
            )

        async def act() -> None:
            now_ms = desk.now_ms
            await desk.parts.store.drop_secret(connector, name, action=action, now=now_ms)
            if desk.vault is not None:
                desk.vault.forget(connector, name)

        await desk.complete(act)


async def back_up_to(desk: Desk, target: Path, action: Action) -> Backup:
    """Write a copy and who asked for it; a copy of which that cannot be written does not stay."""
    backend = _backend(desk)

    async def act() -> Backup:
        write = partial(backup.back_up, backend, target, desk.parts.env)
        copy = await write_noted(desk, target, action, write)
        return Backup(target, copy.size_bytes, moment(copy.at))

    return await desk.complete(act)


async def write_noted(
    desk: Desk, target: Path, action: Action, write: Callable[[], Awaitable[R]]
) -> R:
    """Write a file and who asked for it; it is written again if something is forgotten meanwhile.

    Who forgets is told of the files that are written down (H5); of this one it is not yet.
    """
    store = desk.parts.store
    for is_last in (*[False] * FILES_MAX, True):
        forgotten = await store.backend.transact(count_forgotten, Durability.READ)
        made = await write()
        try:
            await store.note_act(
                target=str(target), action=action, now=desk.now_ms, forgotten=forgotten
            )
            break
        except BaseException as error:
            # Not in a thread: a task that is cancelled while it waits would leave the file.
            backup.take_back(target)
            code = error.code if isinstance(error, RequestRefused) else ""
            if code != "forgotten_meanwhile" or is_last:
                raise
    return made


async def note_restore(store: Store, env: Env, *, is_lost: bool = False) -> bool:
    """Pause every workflow of a store that was restored from a backup, and say so (H5, H10).

    With `is_lost` the host knows that the server lost something. Return whether it is so.
    """
    why = "writes were lost" if is_lost else "restored from a backup"
    action = Action(env.new_id("action"), DULY, "pause", why)
    cause = BlindCause.LOST_WRITES if is_lost else None
    since = await store.note_restore(action=action, now=env.now_ms(), cause=cause)
    if since is None:
        return False
    found = await store.backend.transact(list_blind, Durability.READ)
    log.warning("%s", say_blind(moment(since), found.get(since, BlindCause.BACKUP)))
    return True


async def _find_problems(desk: Desk) -> Problems:
    """Check a file in a copy, a server in a transaction that only reads."""
    backend = desk.parts.store.backend
    if isinstance(backend, SqliteBackend):
        return await backup.find_problems(backend, desk.parts.env)
    return await backend.ask(lambda tx: check(tx, tx.seal_key))


def _backend(desk: Desk) -> SqliteBackend:
    backend = desk.parts.store.backend
    if not isinstance(backend, SqliteBackend):
        raise RequestRefused(code="not_sqlite")
    return backend


def path_of(path: object) -> Path:
    """Return the absolute path of a file that a caller names."""
    if not isinstance(path, str | PathLike) or not fspath(path) or "\0" in str(path):
        raise Invalid(code="wrong_value", path="path", facts={"wanted": "file_to_write"})
    return Path(path).absolute()
