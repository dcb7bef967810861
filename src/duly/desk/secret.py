"""Secrets: sealed where they are kept, open only in the memory of a host (A5).

Law 1: what goes into the store is sealed by AES-GCM under a key that is never there: the one in
       DULY_KEY, or a file beside the database that only its owner can read. A store on a server
       has no such file: every host of it is given the same DULY_KEY (H12).
Law 2: a seal is for one connector and one name; moved to another place it does not open.
Law 3: a secret that does not open is named when the host opens, and never guessed. A call that
       needs it is told so, and a person has to set it again; everything else goes on.
Law 4: every secret is taken out of all that is kept or shown, from the moment it is known, in every
       form in which a service may write it (`rules/redaction.py`).

A seal names its key by a short hash of it, so that another key and a damaged value can be told
apart; the hash says nothing about the key.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import os
import re
import stat
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from duly.connectors.oauth import KeptSecret
from duly.connectors.registry import Registry
from duly.env import Env
from duly.errors import AuthNeeded, ConfigError, Invalid, short
from duly.fact import Offer
from duly.rules.asking import SecretTimes
from duly.rules.seal import name_key
from duly.rules.value import canonical, is_text, nearest
from duly.rules.webhook import secret_of
from duly.store import Store
from duly.store.people import SecretRow

VARIABLE: Final = "DULY_KEY"
OLD_VARIABLE: Final = "DULY_KEY_OLD"
KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
NOTE: Final = "/note"  # no secret can have this name
SEAL: Final = "aes-gcm"  # how a seal was made, in case another way is found one day
# A shorter one would be taken out of half of all words.
SECRET_CHARS_MIN: Final = 4
SECRET_BYTES_MAX: Final = 64 * 1024
NAME_CHARS_MAX: Final = 100
# So narrow that most secrets are no name: one that is given in place of its name is refused.
NAME: Final = re.compile(rf"[A-Za-z0-9_.-]{{1,{NAME_CHARS_MAX}}}")
OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO

log = logging.getLogger("duly.secret")


class Vault:
    """The secrets of one host; connectors ask it whenever they need one."""

    def __init__(
        self,
        env: Env,
        outside: Registry,
        path: Path | None,
        variables: Mapping[str, str] = os.environ,
    ) -> None:
        self._env = env
        self._outside = outside
        self._path = None if path is None else path.with_name(f"{path.name}.key")
        self._variables = variables
        self._old_path = None if path is None else path.with_name(f"{path.name}.key.old")
        self._key: bytes | None = None
        self.old_key: bytes | None = None  # what was sealed with it is sealed anew (L11)
        self._finding = asyncio.Lock()
        self._open: dict[tuple[str, str], str] = {}
        self._closed: dict[tuple[str, str], AuthNeeded] = {}
        self._seals: dict[tuple[str, str], str] = {}  # as they were read, sealed
        self._times: dict[tuple[str, str], int] = {}  # when each that is handed out was set
        self._store: Store | None = None
        self._changes = 0  # how often a secret was kept or forgotten here

    async def read_keys(self) -> None:
        """Read the keys that are there; refuse one that cannot be right. None is made yet."""
        if self._path is None and not self._variables.get(VARIABLE):
            raise ConfigError(code="key_needed", subject=VARIABLE)
        self.old_key = await self._find_old_key()
        await self._find_key(is_made=False)

    async def open(self, store: Store) -> None:
        """Open every secret of the store and give the connectors theirs."""
        for row in await store.list_secrets():
            self._take(row)
        self._store = store
        self._outside.bind(self._hand_out, self, self.times_of)

    def _take(self, row: SecretRow) -> None:
        self._seals[row.connector, row.name] = row.sealed
        self._times[row.connector, row.name] = row.set_at
        problem = self._unseal(row, self._key)
        if problem is not None:
            self._open.pop((row.connector, row.name), None)
            self._closed[row.connector, row.name] = problem
            log.warning("%s", problem)

    async def agree(self, ask: Callable[[str, str | None], Awaitable[bool]]) -> None:
        """Refuse a key that is not the one all hosts of a server seal with (H12)."""
        old = None if self.old_key is None else name_key(self.old_key)
        if not await ask(name_key(await self.find_key()), old):
            raise ConfigError(code="key_other", subject=VARIABLE, facts={"old": OLD_VARIABLE})

    async def read_again(self, store: Store) -> None:
        """Take over what other hosts have set or dropped since (H12)."""
        before = self._changes
        rows = {(row.connector, row.name): row for row in await store.list_secrets()}
        if self._changes != before:
            return  # a caller set or dropped one here meanwhile: these rows may be older than that
        for place in (self._open.keys() | self._closed.keys()) - rows.keys():
            self.forget(*place)
        for place, row in rows.items():
            if self._seals.get(place) != row.sealed:
                self._take(row)

    async def seal(self, connector: str, name: str, value: str) -> str:
        """Seal a secret for the store; the key is made if there is none yet."""
        self._outside.remember(secret_of(connector, value))
        return self._seal(await self.find_key(), connector, name, value)

    def seal_again(self, row: SecretRow) -> str | None:
        """Seal a secret anew that was opened with the old key; None if it was not (L11)."""
        assert self._key is not None, row.name
        if self._seals.get((row.connector, row.name)) != row.sealed:
            self._take(row)  # another host has written since
        value = self._open.get((row.connector, row.name))
        is_old = self.old_key is not None and _key_name(row) == name_key(self.old_key)
        if value is None or not is_old:
            return None
        return self._seal(self._key, row.connector, row.name, value)

    async def find_key(self) -> bytes:
        """Return the key to secrets and seals; it is made if there is none yet."""
        if self._key is not None:
            return self._key
        key = await self._find_key(is_made=True)
        assert key is not None
        return key

    def known_key(self) -> bytes | None:
        """Return the key, if there is one already; no change exists before it is made (L15)."""
        return self._key

    def _seal(self, key: bytes, connector: str, name: str, value: str) -> str:
        nonce = self._env.random_bytes(NONCE_BYTES)
        sealed = AESGCM(key).encrypt(nonce, value.encode(), _place(connector, name))
        return f"{SEAL}:{name_key(key)}:{base64.b64encode(nonce + sealed).decode()}"

    def keep(self, connector: str, name: str, value: str, set_at: int | None = None) -> None:
        """Hand a secret out from now on; the store has it."""
        self._outside.remember(secret_of(connector, value))
        self._changes += 1
        if set_at is not None:
            self._times[connector, name] = set_at
        self._open[connector, name] = value
        self._closed.pop((connector, name), None)

    def forget(self, connector: str, name: str) -> None:
        """Hand a secret out no more; it is still taken out of all that is shown."""
        self._changes += 1
        self._open.pop((connector, name), None)
        self._closed.pop((connector, name), None)
        self._times.pop((connector, name), None)

    def times_of(self, connector: str) -> SecretTimes:
        """Return when each secret of a connector was set, of those that are handed out now."""
        found = sorted(self._times.items())
        return tuple((owner, name, at) for (owner, name), at in found if owner == connector)

    def find(self, connector: str, name: str) -> str | None:
        """Return a secret for the host itself; None if it is not kept, or does not open."""
        found = self._open.get((connector, name))
        if found:
            self._outside.remember(secret_of(connector, found))
        return found

    def problem(self, connector: str, name: str) -> str | None:
        """Say why a secret of the store cannot be read, if it cannot."""
        problem = self._closed.get((connector, name))
        return None if problem is None else str(problem)

    def _hand_out(self, connector: str, name: str) -> str:
        problem = self._closed.get((connector, name))
        if problem is not None:
            raise problem
        return self._open[connector, name]

    def _unseal(self, row: SecretRow, key: bytes | None) -> AuthNeeded | None:
        """Open one secret, or return why it stays closed and what to do."""
        if self.old_key is not None and _key_name(row) == name_key(self.old_key):
            key = self.old_key
        if key is None:
            assert self._path is not None, row.name
            places = {"variable": VARIABLE, "file": str(self._path)}
            return _closed(row, "secret_key_gone", **places)
        named, _, text = row.sealed.removeprefix(f"{SEAL}:").partition(":")
        if named != name_key(key):
            return _closed(row, "secret_key_other", where=str(self.where))
        try:
            kept = base64.b64decode(text, validate=True)
            nonce, sealed = kept[:NONCE_BYTES], kept[NONCE_BYTES:]
            opened = AESGCM(key).decrypt(nonce, sealed, _place(row.connector, row.name))
        except (InvalidTag, ValueError, binascii.Error):
            return _closed(row, "secret_damaged")
        self.keep(row.connector, row.name, opened.decode())
        return None

    async def seal_note(self, connector: str, text: str) -> str:
        """Seal what a caller keeps for the host for a while; it is no secret of the store."""
        return self._seal(await self.find_key(), connector, NOTE, text)

    async def open_note(self, connector: str, sealed: str) -> str | None:
        """Open what was sealed so, for this connector; None if it was not."""
        key = await self.find_key()
        text = sealed.removeprefix(f"{SEAL}:{name_key(key)}:")
        try:
            kept = base64.b64decode(text, validate=True)
            nonce, rest = kept[:NONCE_BYTES], kept[NONCE_BYTES:]
            return AESGCM(key).decrypt(nonce, rest, _place(connector, NOTE)).decode()
        except (InvalidTag, ValueError, binascii.Error):
            return None

    # -- Tokens that connectors refresh (K9) ------------------------------------------------------

    def now_ms(self) -> int:
        """Return the clock of the host."""
        return self._env.now_ms()

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds of the host's clock."""
        await self._env.sleep(seconds)

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> object:
        """Start a task of the host."""
        return self._env.spawn(work, name)

    async def read_kept(self, connector: str, name: str) -> KeptSecret:
        """Read a secret as it lies in the store now; another host may have written it (H12)."""
        assert self._store is not None, name
        while True:
            before = self._changes
            row = await self._store.get_secret(connector, name)
            if self._changes == before:  # else it may be older than what was set here meanwhile
                break
        self._take(row)
        return KeptSecret(self._hand_out(connector, name), row.sealed)

    async def swap(self, connector: str, name: str, before: KeptSecret, value: str) -> bool:
        """Replace a secret if it still lies under that seal; what depends on it stays proven."""
        assert self._store is not None, name
        sealed = await self.seal(connector, name, value)
        set_at = self._times.get((connector, name))
        is_done = await self._store.swap_secret(connector, name, before.sealed, sealed)
        # What a person has set or dropped meanwhile is newer: it is the one that is handed out.
        if is_done and self._times.get((connector, name)) == set_at:
            self.keep(connector, name, value)
            self._seals[connector, name] = sealed
        return is_done

    # -- The key --------------------------------------------------------------------------------

    @property
    def where(self) -> str:
        """Where the key was found, or belongs."""
        return VARIABLE if self._variables.get(VARIABLE) else str(self._path)

    @property
    def where_old(self) -> str:
        """Where the old key was found, or belongs."""
        is_file = self._old_path is not None and not self._variables.get(OLD_VARIABLE)
        return str(self._old_path) if is_file else OLD_VARIABLE

    async def _find_old_key(self) -> bytes | None:
        if given := self._variables.get(OLD_VARIABLE):
            return _read_key(given, OLD_VARIABLE)
        path = self._old_path
        return None if path is None else await self._env.call_blocking(lambda: _key_of(path, None))

    async def _find_key(self, *, is_made: bool) -> bytes | None:
        async with self._finding:  # of two first secrets at once only one may make the key
            if self._key is not None:
                return self._key
            if given := self._variables.get(VARIABLE):
                self._key = _read_key(given, VARIABLE)
            elif (path := self._path) is not None:
                fresh = self._env.random_bytes(KEY_BYTES) if is_made else None
                self._key = await self._env.call_blocking(lambda: _key_of(path, fresh))
            return self._key


async def find_vault(env: Env, outside: Registry, path: Path | None) -> Vault:
    """Read the keys of a store, before it is opened; beside a file they may be files as well.

    A key that cannot be right is refused before an older store is brought up: only the process
    that does that seals its rows (L11).
    """
    vault = Vault(env, outside, path)
    await vault.read_keys()
    return vault


def check_secret(connector: object, name: object, value: object, known: tuple[str, ...]) -> None:
    """Refuse what cannot be a secret; what it says is not repeated."""
    if connector not in known:
        raise Invalid(
            code="no_connector",
            path="connector",
            subject=short(connector),
            facts=nearest(str(connector), known),
        )
    if not isinstance(name, str) or NAME.fullmatch(name) is None:
        raise Invalid(
            code="wrong_value",
            path="name",
            facts={"wanted": "secret_name", "most": NAME_CHARS_MAX},
        )
    if not isinstance(value, str) or not is_text(value) or len(value) < SECRET_CHARS_MIN:
        raise Invalid(
            code="short_secret",
            path="value",
            facts={"name": name, "limit": SECRET_CHARS_MIN, "unit": "characters"},
        )
    if len(value.encode()) > SECRET_BYTES_MAX:
        raise Invalid(
            code="too_long", path="value", facts={"limit": SECRET_BYTES_MAX, "unit": "bytes"}
        )


def _closed(row: SecretRow, code: str, **facts: str) -> AuthNeeded:
    args = {"connector": row.connector, "name": row.name}
    return AuthNeeded(
        code=code,
        subject=row.name,
        facts={"connector": row.connector, **facts},
        next=Offer("set_secret", args, "set_secret", asks=("value",)),
        connect=row.connector,
    )


def _key_name(row: SecretRow) -> str:
    return row.sealed.removeprefix(f"{SEAL}:").partition(":")[0]


def _place(connector: str, name: str) -> bytes:
    return canonical([connector, name])


def _read_key(text: str, where: str) -> bytes:
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise ConfigError(code="no_key", subject=where, facts={"bytes": KEY_BYTES})
    return key


def _key_of(path: Path, fresh: bytes | None) -> bytes | None:
    """Read the key file; if there is none, write a fresh key, if one is given."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            text = file.read(1024).decode("ascii", "replace")
    except (FileNotFoundError, NotADirectoryError):
        if fresh is not None:
            _write_key(path, fresh)
        return fresh
    except OSError as error:
        raise ConfigError(
            code="unreadable", subject=str(path), facts={"cause": error.strerror}
        ) from error
    if status.st_mode & OTHERS:
        raise ConfigError(code="key_open_to_others", subject=str(path))
    # The user who owns the folder could replace everything in it; no other user's key is used.
    if status.st_uid not in (0, os.geteuid(), path.parent.stat().st_uid):
        raise ConfigError(code="key_of_another", subject=str(path))
    return _read_key(text, str(path))


def _write_key(path: Path, key: bytes) -> None:
    """Write the key whole or not at all, and on the disk before anything is sealed with it."""
    draft = path.with_name(f"{path.name}.new")
    try:
        draft.unlink(missing_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(base64.b64encode(key) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise ConfigError(
            code="unwritable", subject=str(path), facts={"cause": error.strerror}
        ) from error
