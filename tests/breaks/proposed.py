"""Guards of proposals and of what agents do, taken away one at a time (M1, M5, M6, G4)."""

from __future__ import annotations

from typing import Final

from duly.faces.mcp.tool import PERSONS
from duly.rules.verb import DECLARED, Scope, act
from tests.breaks import Break

AGENTS: Final = act(scope=Scope.AGENT, example={})(lambda: None)
TESTS: Final = ("tests/desk/test_proposal.py",)

BREAKS: Final = (
    Break(
        rule="G4",
        module="duly.desk.proposal",
        attribute="check_adopter",
        replacement=lambda author, by, subject: None,
        tests=TESTS,
        says="a token adopts what it proposed",
    ),
    Break(
        rule="G4",
        module="duly.desk.proposing",
        attribute="Proposing.decline.__duly_verb__",
        replacement=getattr(AGENTS, DECLARED),
        tests=("tests/api/test_registry.py",),
        says="an agent declines what is proposed",
    ),
    Break(
        rule="M5",
        module="duly.faces.mcp.tool",
        attribute="PERSONS",
        replacement=PERSONS - {"approve"},
        tests=("tests/mcp/test_hostile.py",),
        says="a tool of an agent approves",
    ),
    Break(
        rule="M5",
        module="duly.faces.mcp.tool",
        attribute="PERSONS",
        replacement=PERSONS - {"answer"},
        tests=("tests/mcp/test_hostile.py",),
        says="a tool of an agent says yes with the code of a mail",
    ),
    Break(
        rule="M5",
        module="duly.faces.mcp.tool",
        attribute="PERSONS",
        replacement=PERSONS - {"adopt", "deploy", "grant"},
        tests=("tests/mcp/test_hostile.py",),
        says="a tool of an agent puts a version to use and grants",
    ),
    Break(
        rule="M6",
        module="duly.desk.proposal",
        attribute="hash_proposal",
        replacement=lambda workflow, replaces, source: source.hash,
        tests=TESTS,
        says="a proposal is named by its text alone, whatever it replaces",
    ),
    Break(
        rule="M1",
        module="duly.desk.trial",
        attribute="check_right",
        replacement=lambda verb, right, needed: None,
        tests=("tests/desk/test_wait.py",),
        says="an agent lends itself the reads of a trial",
    ),
)
