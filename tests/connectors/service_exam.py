"""What the tests of connectors for services share: a connector at its double, and the exam."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import duly
from duly.connectors.base import Connector
from duly.connectors.rest import Rest
from duly.rules.oauth import TokenGrant
from duly.rules.value import Json
from duly.testing import WEB_REPLIES, NetworkReport, examine_network
from duly.testing.doubles.base import HOST, ServiceDouble
from duly.testing.doubles.declared import secret_line

TOKEN = "exam-token"
PREFIX = "exam-"


def reach(double: ServiceDouble, kind: Any, token: str = TOKEN, port: int = 0, **more: Any) -> Any:
    """Make the connector of a service that is at its double."""
    made = kind(f"http://{HOST}:{port or double.port}", allow=[HOST], **more)
    made._vault = lambda connector, name: secret_of(made, token)
    return made


def secret_of(connector: Any, token: str) -> str:
    """Return the value of a secret that holds a token, as its service wants it."""
    sign_in = getattr(connector, "_sign_in", None)
    has_provider = sign_in is not None and sign_in.provider is not None
    if has_provider:
        return TokenGrant(token).text
    return secret_line(getattr(connector, "_service", ""), token)


def make_call(tool: str, key: str = "k1", *, attempt: int = 1, **args: Any) -> duly.Call:
    """Spell a call that was sent now."""
    return duly.Call(tool, args, key, "w", attempt, datetime.now(UTC))


async def send(connector: Connector, tool: str, key: str = "k1", **args: Any) -> Any:
    """Make a call of a mutation."""
    call = make_call(f"{connector.name}.{tool}", key, **args)
    return await getattr(connector, tool)(call, **args)


async def happened(connector: Connector, tool: str, key: str = "k1", **args: Any) -> Any:
    """Ask about a call."""
    call = make_call(f"{connector.name}.{tool}", key, **args)
    return await getattr(connector, f"{tool}_happened")(call)


def take_exam(
    double: ServiceDouble,
    kind: Any,
    tool: str,
    args: Mapping[str, Json],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    other: Mapping[str, Json] | None = None,
    skips: int = 0,
    **more: Any,
) -> NetworkReport:
    """Let the connections of a mutation break, each in an account of its own (L4, L5, K2)."""
    monkeypatch.setattr("duly.testing.network.PATIENCE_S", 0.15)
    monkeypatch.setattr("duly.testing.network.CUTS", 2)
    double.give_tokens(PREFIX)
    double.accounts.clear()
    place = folder / tool
    place.mkdir()

    def make(here: Path, port: int) -> Rest:
        made: Rest = reach(double, kind, f"{PREFIX}{tool}-{here.name}", port, **more)
        return made

    return examine_network(
        make,
        tool,
        args,
        other_args={**args, **(other or {})},
        server=(HOST, double.port),
        effects=lambda here: double.count(f"{PREFIX}{tool}-{here.name}"),
        folder=place,
        replies=WEB_REPLIES,
        skips=skips,
    )
