"""Guards of proposals and of what agents do, taken away one at a time (M1, M5, M6, G4)."""

from __future__ import annotations

from typing import Any, Final

from duly.rules.verb import DECLARED, Scope, act
from tests.breaks import Break

AGENTS: Final = act(scope=Scope.AGENT, example={})(lambda: None)
LOOSE: Final = act(scope=Scope.DECIDE, for_agents=True, example={})(lambda: None)
TESTS: Final = ("tests/desk/test_proposal.py",)


async def _sees(caller: Any, workflow: Any) -> bool:
    return False


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
        module="duly.desk.approval",
        attribute="Approvals.approve.__duly_verb__",
        replacement=getattr(LOOSE, DECLARED),
        tests=("tests/mcp/test_hostile.py", "tests/mcp/test_decide.py"),
        says="a tool of an agent approves",
    ),
    Break(
        rule="M5",
        module="duly.desk.slip",
        attribute="Slips.answer.__duly_verb__",
        replacement=getattr(LOOSE, DECLARED),
        tests=("tests/mcp/test_hostile.py", "tests/mcp/test_decide.py"),
        says="a tool of an agent says yes with the code of a mail",
    ),
    Break(
        rule="M5",
        module="duly.desk.proposal",
        attribute="SourceProposals.adopt.__duly_verb__",
        replacement=getattr(LOOSE, DECLARED),
        tests=("tests/mcp/test_hostile.py", "tests/mcp/test_decide.py"),
        says="a tool of an agent adopts a proposal",
    ),
    Break(
        rule="M5",
        module="duly.rules.verb",
        attribute="Declared.is_persons",
        replacement=property(lambda self: self.scope is Scope.ADMIN),
        tests=("tests/mcp/test_decide.py",),
        says="an agent lets a restored bus deliver again",
    ),
    Break(
        rule="M5",
        module="duly.faces.mcp.server",
        attribute="_is_blind",
        replacement=_sees,
        tests=("tests/mcp/test_decide.py",),
        says="an agent lets a restored workflow go on",
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
