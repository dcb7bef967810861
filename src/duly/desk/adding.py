"""Adding a connection to the settings of a host's project, and starting the host again with them.

Law 1  What a page may set stands in one table (`rules/addable.py`); all else is refused here, for
       every face. The host writes, not the face: a page holds no file.
Law 2  A connector is built from what would be written before it is written, and a host does not
       stop before its settings, and every connector of them, were built in another process.
Law 3  A secret goes into the store, sealed, and nowhere else (A5). A name under which another
       connection left something is not given away: the new one would inherit it (K4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Final

from duly.desk.base import USER, Desk, HasDesk, Setup
from duly.desk.origin import check_moves, check_unused
from duly.desk.secret import check_secret
from duly.errors import Invalid, RequestRefused, parts_of
from duly.rules.addable import (
    ONCE_CHARS_MAX,
    AddedConnection,
    NewConnection,
    SettingsState,
    read_new,
)
from duly.rules.addable_kind import AddableKind
from duly.rules.verb import Scope, act, question

OMITTED_MAX: Final = 100  # parts of a description that are named


class Adding(HasDesk):
    """Acts of a person who has the page alone."""

    @question(follow=False, example={})
    async def kinds(self) -> tuple[AddableKind, ...]:
        """List the kinds of connections that can be added here, and the settings of each."""
        # Rules: U6.
        desk = self._desk()
        if desk.setup is None:
            return ()
        return await desk.parts.env.call_blocking(desk.setup.list_kinds)

    @question(follow=False, example={})
    async def settings(self) -> SettingsState:
        """Say whether the settings have changed since this host was started."""
        # Rules: U7.
        desk = self._desk()
        has_model = desk.parts.models is not None
        if desk.setup is None:
            return SettingsState(has_project=False, has_model=has_model)
        found = await desk.parts.env.call_blocking(desk.setup.look)
        return replace(found, is_alone=desk.parts.lease is None, has_model=has_model)

    @act(
        scope=Scope.ADMIN,
        example={"use": "files", "name": "inbox", "settings": {"path": "inbox"}},
    )
    async def add_connection(
        self,
        use: str,
        name: str,
        settings: dict[str, str] | None = None,
        secrets: dict[str, str] | None = None,
        once: str = "",
        *,
        by: str = USER,
    ) -> AddedConnection:
        """Write a new connection into the settings; scripts can use it after the next start.

        `kinds` lists the settings of each kind. Programs, statements, addresses of your own network
        and folders outside the project cannot be set here, only by a command on this machine. If
        several values are wrong, the fact `also` of the error has the others. A call that is
        repeated with the same `once` adds nothing.
        """
        # Rules: G4, A5, A6, K13, K14.
        desk = self._desk()
        setup = _setup_of(desk)
        new = read_new(use, name, settings or {}, secrets or {})
        for each, value in new.secrets.items():
            try:
                check_secret(new.name, each, value, (new.name,))
            except Invalid as error:
                raise Invalid(**parts_of(error), path=f"secrets.{each}") from None
        once = str(once)[:ONCE_CHARS_MAX]
        said = sha256(repr(new).encode()).digest()

        async def add() -> AddedConnection:
            async with desk.adding.turn:
                before = desk.adding.done.get(once)
                if before is not None and before[0] == said:
                    return before[1]
                made = await self._add(desk, setup, new, by)
                desk.adding.remember(once, said, made)
                return made

        return await desk.complete(add)

    async def _add(self, desk: Desk, setup: Setup, new: NewConnection, by: str) -> AddedConnection:
        use, name = new.use, new.name
        env, store = desk.parts.env, desk.parts.store
        action = desk.action(by, "add_connection", use)
        if name in desk.parts.outside.connectors:
            raise RequestRefused(code="connection_there", subject=name)
        if new.secrets and desk.vault is None:
            raise RequestRefused(code="no_vault")
        added = await env.call_blocking(partial(setup.try_out, use, name, new.settings))
        await check_unused(store, name, added.origin)
        await env.call_blocking(partial(setup.write, added))
        try:
            await store.note_act(target=name, action=action, now=desk.now_ms)
        except BaseException:
            # What is written down as the act of no person does not stay in the settings (A6).
            await env.call_blocking(partial(setup.take_back, added))
            raise
        await _keep(desk, name, new.secrets, by)
        return AddedConnection(
            name, use, added.file, added.folder, _signs_in(setup, use), added.omitted[:OMITTED_MAX]
        )

    @act(scope=Scope.ADMIN, example={})
    async def restart(self, *, by: str = USER) -> None:
        """Start the host again, with the settings as they are now; what is being sent ends first.

        The settings are first tried out in another process. If one of them is wrong, the host goes
        on as it is, and the error says what is wrong.
        """
        # Rules: A6, L6, R7.
        desk = self._desk()
        setup = desk.setup
        if setup is None or not setup.can_restart:
            raise RequestRefused(code="not_restarted_here")
        action = desk.action(by, "restart")
        rehearsed = await setup.rehearse()
        await check_moves(desk.parts.store, rehearsed.origins)
        await desk.parts.store.note_act(target=None, action=action, now=desk.now_ms)
        setup.restart()


def _setup_of(desk: Desk) -> Setup:
    if desk.setup is None:
        raise RequestRefused(code="no_project_here")
    return desk.setup


def _signs_in(setup: Setup, use: str) -> bool:
    return next(each.signs_in for each in setup.list_kinds() if each.use == use)


async def _keep(desk: Desk, name: str, typed: Mapping[str, str], by: str) -> None:
    """Seal the secrets of a new connection; it is there, so that each is an act of its own."""
    vault = desk.vault
    for each, value in typed.items():
        assert vault is not None, name
        sealed = await vault.seal(name, each, value)
        set_at = await desk.parts.store.set_secret(
            name, each, sealed, action=desk.action(by, "set_secret"), now=desk.now_ms
        )
        vault.keep(name, each, value, set_at)
