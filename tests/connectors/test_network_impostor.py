"""The exam with servers that are not the right one, and with a name that changes (K3)."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from duly.connectors import reach
from duly.connectors.base import Call
from duly.connectors.http import Http
from duly.connectors.reach import find_addresses
from duly.connectors.sql import Sql
from duly.errors import NotSent, UnknownOutcome
from duly.testing import ExamFailed, NetworkReport, examine_network
from tests.connectors.certificates import Authority
from tests.connectors.shop import Shop
from tests.connectors.test_network_exam import CREATE
from tests.connectors.test_network_wrong import Plain

HOST = "127.0.0.1"
NAME = "shop.test"
CLEAR = "it does not speak TLS"


class Stand:
    """A shop with a good certificate, and the servers that stand in its place."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        ours, others = Authority(folder / "ca"), Authority(folder / "other-ca")
        self.folder, self.ca = folder, ours.ca
        self.shop = stack.enter_context(Shop(folder / "exam", context=ours.context(NAME)))
        bad = {
            "its certificate is of another name": ours.context("other.test"),
            "its certificate is over": ours.context(NAME, is_over=True),
            "it signed its certificate itself": ours.context(NAME, is_self_signed=True),
            "its certificate is of another authority": others.context(NAME),
            CLEAR: None,
        }
        self.impostors = {
            why: stack.enter_context(Shop(folder / "impostor", context=context))
            for why, context in bad.items()
        }
        self.impostors[CLEAR].next(lambda shop, client: client.sendall(b"220 hello\r\n"))

    def count(self, folder: Path) -> int:
        """Count orders once everything sent before was dealt with."""
        trust = ssl.create_default_context(cafile=str(self.ca))
        trust.check_hostname = False
        way = http.client.HTTPSConnection(HOST, self.shop.port, timeout=10, context=trust)
        way.request("GET", f"/{folder.name}/text")
        way.getresponse().read()
        way.close()
        return len(self.shop.orders(folder.name))

    def examine(self, kind: Any, tool: str, **more: Any) -> NetworkReport:
        """Let a connector take the exam, under the name of the shop."""

        def make(folder: Path, port: int) -> Any:
            url = f"https://{NAME}:{port}/{folder.name}"
            made = kind(url, allow=[NAME], ca=self.ca, **more)
            object.__setattr__(made, "_url_given", url)
            return made

        return examine_network(
            make,
            tool,
            {"item": "tea"},
            server=(HOST, self.shop.port),
            effects=self.count,
            folder=self.folder / "exam",
            impostors={why: (HOST, each.port) for why, each in self.impostors.items()},
            name=NAME,
        )


@pytest.fixture
def stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stand]:
    monkeypatch.setattr("duly.testing.network.PATIENCE_S", 0.2)
    monkeypatch.setattr("duly.testing.network.CUTS", 1)
    for each in ("exam", "impostor"):
        (tmp_path / each).mkdir()
    with ExitStack() as stack:
        yield Stand(tmp_path, stack)


def test_a_connector_speaks_to_its_server_alone(stand: Stand) -> None:
    """K3, L4: no impostor hears a word, and a name leads to the address that was judged."""
    report = stand.examine(Http, "create_order", operations={"create_order": CREATE})
    again = "nothing was done, reconcile said NotApplied; sent again, there was 1 change."
    for why, impostor in stand.impostors.items():
        said = f"When another server is reached, and {why}: it said not sent, {again}"
        assert said in report.sentences
        assert impostor.asks == []
    named = "When the name leads to another address after the look-up: it said applied, it was done"
    assert f"{named}, reconcile said Applied." in report.sentences


class Trusting(Plain):
    """It encrypts, and believes every certificate."""

    async def dispatch(self, call: Any, item: str) -> Any:
        return await self.in_thread(self._post, call, item)

    def _context(self) -> ssl.SSLContext:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
        return made

    def _post(self, call: Any, item: str) -> Any:
        url = str(getattr(self, "_url_given", ""))
        place, _, path = url.removeprefix("https://").partition("/")
        way = http.client.HTTPSConnection(place, timeout=0.3, context=self._context())
        head = {"Idempotency-Key": call.key, "Content-Type": "application/json"}
        try:
            way.request("POST", f"/{path}/orders", json.dumps({"item": item}), head)
            answer = way.getresponse()
            said = answer.read()
            if answer.status != 201:
                raise UnknownOutcome(f"answered {answer.status}")
            return json.loads(said)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise UnknownOutcome(str(error)) from error
        finally:
            way.close()


class LookingTwice(Trusting):
    """It judges the addresses of a name, and then connects to the name."""

    ca: Path

    def __init__(self, url: str, *, ca: Path, **more: Any) -> None:
        super().__init__(url, ca=ca, **more)
        object.__setattr__(self, "ca", ca)

    def _context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.ca))

    async def dispatch(self, call: Any, item: str) -> Any:
        await find_addresses(NAME, 443, allow=[NAME])
        return await super().dispatch(call, item)


WRONG = {
    Trusting: "its certificate is of another name: it answered, and nothing was done",
    LookingTwice: "after the look-up: it looked the name up again, and connected to an address",
}


@pytest.mark.parametrize("kind", WRONG, ids=lambda kind: kind.__name__)
def test_a_connector_that_believes_too_much_is_found_out(stand: Stand, kind: Any) -> None:
    """K3: each for its own reason."""
    with pytest.raises(ExamFailed, match=WRONG[kind]) as found:
        stand.examine(kind, "order")
    others = [says for other, says in WRONG.items() if other is not kind]
    assert not any(says in str(found.value) for says in others)


class Gate:
    """The beginning of a PostgreSQL server: it begins TLS, and notes what it hears after that."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context, self.heard = context, b""
        self._listener = socket.create_server((HOST, 0))
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        client, _ = self._listener.accept()
        with self._listener, client, suppress(OSError):
            client.settimeout(10)
            client.recv(8)  # libpq asks for TLS
            client.sendall(b"S")
            with self._context.wrap_socket(client, server_side=True) as secure:
                self.heard = secure.recv(1000)

    def close(self) -> None:
        """Wait until its one connection is over."""
        self._thread.join(10)


async def test_a_database_with_a_wrong_certificate_hears_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K3: nor is its name looked up by libpq, which would find no such name."""
    ours, name = Authority(tmp_path), "db.test"
    heard = {}
    resolve = reach.resolve_name

    async def look_up(host: str, port: int) -> Any:
        return await resolve(HOST if host == name else host, port)

    monkeypatch.setattr(reach, "resolve_name", look_up)
    for names in ((name,), ("other.test",)):
        with closing(Gate(ours.context(*names))) as gate:
            add = {"sql": "insert into t values (:id)", "arguments": {"id": "integer"}}
            place = f"postgresql://ada@{name}:{gate.port}/books"
            sql: Any = Sql(place, operations={"add": add}, allow=[name], ca=ours.ca)
            call = Call("sql.add", {"id": 1}, "k1", "w", 1, datetime(2026, 1, 1, tzinfo=UTC))
            with pytest.raises(NotSent, match="no connection"):
                await sql.add(call, id=1)
        heard[names[0]] = gate.heard
    assert b"ada" in heard[name]
    assert heard["other.test"] == b""
