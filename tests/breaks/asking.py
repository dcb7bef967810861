"""Breaks of what a tool says of itself, and of whose word is believed without a proof (K1, K10)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from duly.connectors.base import Applied, NotApplied
from duly.engine import proof
from tests.breaks import Break

BELIEVE = proof.believe
ACCOUNT = ("tests/connectors/test_account.py",)
CONNECTION = ("tests/connectors/test_connection.py",)


async def _believe_a_yes(parts: Any, tool: Any, call: Any, verdict: Any) -> Any:
    if isinstance(verdict, Applied):
        return verdict
    return await BELIEVE(parts, tool, call, verdict)


async def _believe_a_no(parts: Any, tool: Any, call: Any, verdict: Any) -> Any:
    if isinstance(verdict, NotApplied):
        return verdict
    return await BELIEVE(parts, tool, call, verdict)


async def _believe_whenever(parts: Any, tool: Any, call: Any, verdict: Any) -> Any:
    same = replace(call, basis=parts.outside.basis_now(tool.name))
    return await BELIEVE(parts, tool, same, verdict)


BREAKS = (
    Break(
        "K1",
        "duly.rules.asking",
        "find_clash",
        lambda *_, **__: None,
        ("tests/connectors/test_asking.py",),
        "a tool contradicts itself and is taken",
    ),
    Break(
        "K10",
        "duly.engine.proof",
        "believe",
        _believe_a_yes,
        CONNECTION,
        "a yes is believed without a proof",
    ),
    Break(
        "K10",
        "duly.engine.proof",
        "believe",
        _believe_a_no,
        CONNECTION,
        "a no is believed without a proof, and the call is sent again",
    ),
    Break(
        "K10",
        "duly.engine.proof",
        "believe",
        _believe_whenever,
        ACCOUNT,
        "a no of another account is believed",
    ),
    Break(
        "L6",
        "duly.engine.proof",
        "is_absence_stale",
        lambda *_, **__: False,
        ACCOUNT,
        "what a person deleted is made again, however late it is asked about",
    ),
    Break(
        "L7",
        "duly.engine.reconciler",
        "Reconciler._is_same_account",
        lambda self, row: True,
        ACCOUNT,
        "a call is sent again with the secret of another account",
    ),
    Break(
        "L7",
        "duly.connectors.registry",
        "Registry.basis_now",
        lambda self, tool: "",
        ACCOUNT,
        "another secret counts as the same account",
    ),
    Break(
        "K10",
        "duly.connectors.registry",
        "Registry.basis_with",
        lambda self, tool, times: "",
        CONNECTION,
        "a proof outlives the secret or the account that it was made with",
    ),
)
