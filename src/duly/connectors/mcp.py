"""Tools of an MCP server, as a person agreed to them (M7, M8).

    [connectors.notes]
    use = "mcp"
    command = ["/usr/bin/notes-server", "--stdio"]     # or: url = "https://notes.example/mcp"
    reads = ["search_*"]                               # all else is a change

Law 1: what a tool is, the settings and a person say; the server has no say in it. A tool that
       `reads` does not name is a change of high risk that cannot be asked about and is never
       repeated.
Law 2: before every call, of a read too, the server's list is compared with what a person agreed
       to. A tool that differs is not used until a person has agreed again.
Law 3: until the call itself is written, every error says that nothing was sent. After that only a
       whole answer says what happened; everything else is unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from duly.connectors.auth_table import read_auth
from duly.connectors.base import Call, mutation, read
from duly.connectors.mcp_http import McpSite
from duly.connectors.mcp_list import list_tools
from duly.connectors.mcp_lock import arguments_of, describe_tool, read_lock, write_lock
from duly.connectors.mcp_stdio import MEMORY_BYTES, McpProcess, check_command
from duly.connectors.mcp_wire import NoAnswer, read_change, read_result
from duly.connectors.named import describe
from duly.connectors.need import Need
from duly.connectors.pinning import OfferedList, PinningConnector
from duly.connectors.place import Argument
from duly.connectors.reach import within
from duly.connectors.transport import Credentials, Transport, check_header
from duly.errors import (
    AuthNeeded,
    ConfigError,
    ConnectorError,
    Invalid,
    NotSent,
    PermissionDenied,
    Refused,
    RequestRefused,
    Transient,
    UnknownOutcome,
)
from duly.rules.pin import (
    WHOLE,
    ServedTool,
    agree,
    compare,
    is_read,
    is_same,
    name_list,
    read_arguments,
)
from duly.rules.url import read_host, read_url
from duly.rules.value import Json

TIMEOUT_S: Final = 60.0
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
RETURNS: Final[Mapping[str, Any]] = {"text": str, "data": Any, "parts": list}

Link: TypeAlias = McpProcess | McpSite


@dataclass(frozen=True, slots=True)
class _Operation:
    """A tool of the server, as the host sees it."""

    name: str
    kind: str
    does: str
    arguments: tuple[Argument, ...]
    served: ServedTool
    returns: Any = None


class _Progress:
    """How far a call has come."""

    is_sent = False


@dataclass(slots=True)
class _Seat:
    """What belongs to one event loop: the way to the server."""

    loop: asyncio.AbstractEventLoop
    turn: asyncio.Lock
    link: Link | None = None


class Mcp(PinningConnector):
    """An MCP server: a `command` of this machine, or a `url`; `reads` names what only reads."""

    name = "mcp"
    needs = (
        Need("command", "the program of the server", "/usr/bin/notes-server", is_required=False),
        Need("url", "or its address", "https://notes.example/mcp", is_required=False),
    )

    def __init__(
        self,
        *,
        lock: str | Path,
        command: Sequence[str] | str = (),
        url: str = "",
        reads: Sequence[str] = (),
        env: Mapping[str, str] = NOTHING,
        secrets: Mapping[str, str] = NOTHING,
        auth: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] = NOTHING,
        allow: Sequence[str] = (),
        ca: str | Path | None = None,
        timeout_s: float = TIMEOUT_S,
        memory_mb: int = MEMORY_BYTES // 1024**2,
        name: str = "mcp",
    ) -> None:
        self.name = name
        self._lock = Path(lock)
        self._reads = _texts("reads", reads)
        self._timeout_s = _seconds(timeout_s)
        self._seat: _Seat | None = None
        self._started: list[McpProcess] = []  # those that may not have ended yet
        self._read_at: tuple[object, dict[str, ServedTool]] | None = None
        self._command: tuple[str, ...] = ()
        if bool(command) == bool(url):
            raise ConfigError(
                'Write one of them: command = ["/usr/bin/server"], or url = "https://…".'
            )
        if command:
            self._command_of(command, env, secrets, memory_mb)
            _refuse_beside("command", auth=auth, headers=headers, allow=allow, ca=ca)
        else:
            _refuse_beside("url", env=env, secrets=secrets)
            self._site_of(url, auth, headers, allow, ca)
        self._agreed = self._read_lock()
        self.__class__ = _class_for(type(self), self._agreed, self._reads, self._timeout_s)

    def _command_of(
        self,
        command: object,
        env: Mapping[str, str],
        secrets: Mapping[str, str],
        memory_mb: object,
    ) -> None:
        given = check_command([command] if isinstance(command, str) else command)
        if given is None:
            said = "write the absolute path of the program, and its arguments, as a list of texts."
            raise ConfigError(f"command: {said}")
        for key, table in (("env", env), ("secrets", secrets)):
            is_table = isinstance(table, Mapping)
            if not is_table or not all(isinstance(each, str) for each in table.values()):
                raise ConfigError(f'{key}: write a table of texts: {{ API_KEY = "…" }}.')
            if any(not each or "=" in each or "\0" in each + table[each] for each in table):
                raise ConfigError(f"{key}: a variable has a name without = and no zero byte.")
        if both := sorted(env.keys() & secrets.keys()):
            raise ConfigError(f"secrets: {both[0]} stands in env too. Leave one out.")
        if type(memory_mb) is not int or memory_mb < 1:
            raise ConfigError("memory_mb: write a whole number of megabytes.")
        self._command, self._memory = given, memory_mb * 1024**2
        self._env, self._secrets = dict(env), dict(secrets)
        self._secret_names = tuple(dict.fromkeys(self._secrets.values()))
        self.local = True

    def _site_of(
        self,
        url: str,
        auth: Mapping[str, Any] | None,
        headers: Mapping[str, str],
        allow: Sequence[str],
        ca: str | Path | None,
    ) -> None:
        try:
            self._url = read_url(url)
            hosts = [read_host(each, path="allow") for each in _texts("allow", allow)]
            for each, value in headers.items():
                check_header(each, value)
        except (Invalid, Refused, AttributeError, TypeError) as error:
            raise ConfigError(str(error)) from None
        self._headers = dict(headers)
        self._auth = None if auth is None else read_auth(auth)
        self._origin = self._url.origin
        self._secret_names = () if self._auth is None else self._auth.secrets
        if self._auth is not None and self._url.scheme == "http" and self._url.host not in hosts:
            raise ConfigError(
                f"url: {url} would send a secret without TLS. Write https, or name the host in"
                " allow if it is on your own network."
            )
        self._transport = Transport(allow=hosts, ca=None if ca is None else Path(ca))

    # -- Calls ------------------------------------------------------------------------------------

    async def _perform(self, operation: _Operation, args: Mapping[str, Json]) -> Json:
        """Call a tool that only reads."""
        what = f"{self.name}.{operation.name}"
        try:
            async with asyncio.timeout(within(self._timeout_s)), self._turn():
                link = await self._checked(operation)
                params = _params(operation, args)
                if isinstance(link, McpProcess):
                    reply = await link.send("tools/call", params)
                else:
                    reply = await link.read("tools/call", params, timeout_s=self._timeout_s)
                return read_result(reply, what)
        except NotSent as error:
            raise Transient(str(error), retry_after_s=error.retry_after_s) from None
        except (OSError, EOFError, NoAnswer) as error:
            raise Transient(f"{what}: {self._why(error)}.") from error

    async def _apply(self, operation: _Operation, call: Call) -> Json:
        """Call a tool that may change something, once (law 3)."""
        what = f"{self.name}.{operation.name}"
        progress = _Progress()
        try:
            async with asyncio.timeout(within(self._timeout_s)), self._turn():
                link = await self._checked(operation)
                params = _params(operation, call.args)
                progress.is_sent = True
                if isinstance(link, McpProcess):
                    reply = await link.send("tools/call", params)
                else:
                    reply = await link.send("tools/call", params, timeout_s=self._timeout_s)
                return read_change(reply, what)
        except (AuthNeeded, PermissionDenied, NotSent):
            raise
        except Exception as error:
            if progress.is_sent:
                if not isinstance(error, OSError | EOFError | NoAnswer):
                    raise
                said = f"{what}: it may have been done: {self._why(error)}."
                raise UnknownOutcome(said) from error
            wait_s = getattr(error, "retry_after_s", None)
            said = f"{what}: nothing was sent: {self._why(error)}."
            raise NotSent(said, retry_after_s=wait_s) from error

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Wait until no other call is at the process; web servers take several at once."""
        seat = self._here()
        if not self._command:
            yield
            return
        async with seat.turn:
            yield

    async def _checked(self, operation: _Operation) -> Link:
        """Return the way to the server when the tool is what a person agreed to (law 2)."""
        seat = self._here()
        link = await self._link(seat)
        served = await list_tools(link)
        try:
            agreed = self._read_lock().get(operation.name)
        except ConfigError:
            raise self._stopped(operation, "what was agreed to cannot be read") from None
        offered = served.get(operation.served.name)
        if agreed is None or agreed.name != operation.served.name:
            raise self._stopped(operation, "no person agrees to this tool any more")
        if offered is None:
            raise self._stopped(operation, "the server does not offer this tool any more")
        if not is_same(agreed, offered):
            raise self._stopped(
                operation, "the server has changed this tool since it was agreed to"
            )
        if agreed.takes != operation.served.takes:
            raise self._stopped(operation, "it was agreed to anew, and the host must start again")
        return link

    def _stopped(self, operation: _Operation, why: str) -> AuthNeeded:
        said = f"{self.name}.{operation.name} is not used: {why}. See it: duly connect {self.name}"
        return AuthNeeded(said, connect=self.name)

    async def _link(self, seat: _Seat) -> Link:
        """Return the way to the server; one that has ended is opened anew."""
        if seat.link is not None and not seat.link.is_over:
            return seat.link
        if self._command:
            variables = {key: self.secret(each) for key, each in self._secrets.items()}
            made = McpProcess(self._command, {**self._env, **variables}, self._memory)
            seat.link = made
            self._started = [*(each for each in self._started if not each.is_gone), made]
            try:
                await made.begin()
            except BaseException:
                made.end()
                raise
            return made
        async with seat.turn:
            if not isinstance(seat.link, McpSite):
                seat.link = McpSite(
                    self.name, self._url, self._transport, self._credentials, self._headers
                )
            if seat.link.is_over:
                await seat.link.begin()
        return seat.link

    def _credentials(self) -> Credentials | None:
        return None if self._auth is None else self._auth.dress(self, self._url.origin)

    def _here(self) -> _Seat:
        """Return what belongs to the loop that runs."""
        loop = asyncio.get_running_loop()
        if self._seat is None or self._seat.loop is not loop:
            if self._seat is not None and isinstance(self._seat.link, McpProcess):
                self._seat.link.end()
            self._seat = _Seat(loop, asyncio.Lock())
        return self._seat

    def _why(self, error: BaseException) -> str:
        link = None if self._seat is None else self._seat.link
        if isinstance(error, ConnectorError):
            return str(error).rstrip(".")
        if isinstance(link, McpProcess):
            return link.why(error)
        if isinstance(error, NoAnswer):
            return error.why
        is_late = isinstance(error, TimeoutError)
        return "it did not answer in time" if is_late else f"it failed ({type(error).__name__})"

    # -- What a person agrees to ------------------------------------------------------------------

    def _read_lock(self) -> dict[str, ServedTool]:
        """Read what was agreed to, again if the file is another one."""
        mark: object = None
        with suppress(OSError):
            found = self._lock.stat()
            mark = (found.st_ino, found.st_size, found.st_mtime_ns)
        if self._read_at is None or self._read_at[0] != mark:
            self._read_at = (mark, read_lock(self._lock))
        return self._read_at[1]

    async def _served(self) -> tuple[ServedTool, ...]:
        """Ask the server what it offers now."""
        try:
            async with asyncio.timeout(self._timeout_s), self._turn():
                return tuple((await list_tools(await self._link(self._here()))).values())
        except NotSent as error:
            raise Transient(str(error), retry_after_s=error.retry_after_s) from None
        except (OSError, EOFError, NoAnswer) as error:
            raise Transient(f"{self.name}: {self._why(error)}.") from error

    async def _offer(self) -> OfferedList:
        return self._compared(await self._served())

    async def _agree(self, seen: str) -> OfferedList:
        served = await self._served()
        if name_list(served) != seen:
            raise RequestRefused(code="other_tools", subject=self.name)
        tools = agree(self._read_lock(), served, _TAKEN)
        await self.in_thread(write_lock, self._lock, tools)
        return self._compared(served)

    def _compared(self, served: tuple[ServedTool, ...]) -> OfferedList:
        agreed = self._read_lock()
        tools = compare(agreed, served, reads=self._reads, taken=_TAKEN)
        is_stale = agreed.keys() != self._agreed.keys() or any(
            each.takes != self._agreed[name].takes for name, each in agreed.items()
        )
        return OfferedList(self.name, name_list(served), tools, is_stale)

    async def _close_down(self) -> None:
        self._seat = None
        started, self._started = self._started, []
        for each in started:
            each.end()
        for each in started:
            await each.ended()


def _params(operation: _Operation, args: Mapping[str, Json]) -> dict[str, Json]:
    """Write the arguments under the names of the server; what is not given is left out."""
    known = read_arguments(operation.served.takes)
    if known is None:
        return {"name": operation.served.name, "arguments": args[WHOLE]}
    given = {
        each.served: args[each.name]
        for each in known
        if each.name in args and (args[each.name] is not None or "null" in each.types)
    }
    return {"name": operation.served.name, "arguments": given}


# -- Making the class -----------------------------------------------------------------------------


_TAKEN: Final = frozenset(dir(Mcp))


def _class_for(
    kind: type[Mcp], agreed: Mapping[str, ServedTool], reads: Sequence[str], timeout_s: float
) -> type[Mcp]:
    """Make the class whose methods are the tools that were agreed to."""
    made: dict[str, Any] = {"__module__": __name__, "__doc__": kind.__doc__}
    for name, each in agreed.items():
        if name in _TAKEN:
            raise ConfigError(
                f"lock: no tool can be called {name!r}. Remove the file, and connect."
            )
        arguments, _ = arguments_of(each)
        is_asking = is_read(each.name, reads)
        word = "read" if is_asking else "mutation"
        operation = _Operation(name, word, describe_tool(each), arguments, each, dict(RETURNS))
        made[name] = (_read_of if is_asking else _mutation_of)(operation, timeout_s)
    return type(Mcp.__name__, (kind,), made)


def _read_of(operation: _Operation, timeout_s: float) -> Any:
    async def ask(self: Mcp, /, **args: Any) -> Any:
        return await self._perform(operation, args)

    describe(ask, operation, "Mcp", first=("self",))
    return read(timeout_s=timeout_s)(ask)


def _mutation_of(operation: _Operation, timeout_s: float) -> Any:
    async def apply(self: Mcp, call: Call, /, **args: Any) -> Any:
        return await self._apply(operation, call)

    describe(apply, operation, "Mcp", first=("self", "call"))
    terms = mutation(risk="high", timeout_s=timeout_s, key_in="none", asked="not_at_all")
    return terms(apply)


def _texts(key: str, given: object) -> tuple[str, ...]:
    is_list = isinstance(given, Sequence) and not isinstance(given, str)
    words: Sequence[Any] = given if is_list else (None,)  # type: ignore[assignment]
    if not all(isinstance(each, str) for each in words):
        raise ConfigError(f'{key}: write a list of texts: {key} = ["search_*"].')
    return tuple(words)


def _seconds(given: object) -> float:
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    if not is_number or not 0 < given < 86_400:  # type: ignore[operator]
        raise ConfigError("timeout_s: write a positive number of seconds, less than a day.")
    return float(given)  # type: ignore[arg-type]


def _refuse_beside(what: str, **given: object) -> None:
    for key, value in given.items():
        if value:
            raise ConfigError(f"{key}: it has no meaning beside {what}. Leave it out.")
