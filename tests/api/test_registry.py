"""The registry of verbs: what stands at the methods is all there is."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any, Final

import pytest

from duly.api.codec import describe, perform, read_arguments
from duly.api.registry import LIFE, VERBS, Registry
from duly.bus.bus import Bus
from duly.errors import NotFound
from duly.host import Host
from duly.rules.verb import DECLARED, Scope, question

# Questions that work for their answer, in the sandbox or on the whole disk, and those that a face
# asks beside another one.
ONCE: Final = {
    *("check", "find", "ids", "short_ids", "sql", "try_", "uses", "verify", "what_if", "who"),
    *("admitted", "channels", "asked", "begin_oauth", "kinds", "settings"),
    *(
        "check_connection",
        "figures",
        "forgettable",
        "guide",
        "offered",
        "preview",
        "simulate",
        "wait",
    ),
}
# The id of a rule, or the end of a call in Python.
OF_THE_HOUSE: Final = re.compile(r"\b[A-Z]\d{1,2}\b|\(\)`")
# What is more than reading, by what a caller must be allowed (G4).
SCOPES: Final = {
    Scope.AGENT: "check try_ what_if publish pause resume run_now retry receive bus.emit "
    "bus.schedule_at propose simulate preview",
    Scope.DECIDE: "approve approve_all allow amend reject revoke_allowance settle skip abandon "
    "reconnect deploy rollback grant choose_asks revoke bus.cancel bus.discard bus.resume "
    "bus.retry bus.unsubscribe sql adopt decline write answer",
    Scope.ADMIN: "secrets set_secret drop_secret backup remove tidy tokens new_token revoke_token "
    "export import_ forget forgettable new_link new_hook prove "
    "channels pair unpair check_connection offered pin begin_oauth finish_oauth "
    "add_connection restart",
}


def coroutines(owner: type) -> set[str]:
    found = {name for name, each in vars(owner).items() if inspect.iscoroutinefunction(each)}
    return {name for name in found if not name.startswith("_")}


def test_every_public_coroutine_is_declared_or_of_a_hosts_own_life() -> None:
    """U6: a method that is no verb by oversight is found out here."""
    host = set().union(*(coroutines(each) for each in Host.__mro__))
    bus = {f"bus.{name}" for each in Bus.__mro__ for name in coroutines(each)}
    assert set(VERBS) == (host - LIFE) | bus
    assert host >= LIFE
    assert len(VERBS) == len(set(VERBS))


def test_a_method_without_a_declaration_is_no_verb() -> None:
    """U6: what is not declared does not exist for any face."""

    class Mine(Host):
        async def undeclared(self) -> None: ...

        @question(example={})
        async def declared(self) -> int:
            """Count something."""
            return 1

    verbs = Registry(Mine)
    assert set(verbs) - set(VERBS) == {"declared"}
    assert (verbs["declared"].doc, verbs["declared"].returns) == ("Count something.", int)
    assert "undeclared" not in verbs
    assert "declared" not in VERBS


def test_the_docstring_of_a_verb_can_be_shown_as_it_stands() -> None:
    """U6: no face changes it, so it has no id of a rule and spells no call."""
    found = {name: OF_THE_HOUSE.findall(each.doc) for name, each in VERBS.items()}
    assert {name: texts for name, texts in found.items() if texts} == {}
    assert OF_THE_HOUSE.findall("List events (U2, U4); see `deliveries()`.") == ["U2", "U4", "()`"]
    assert all(each.doc for each in VERBS.values())


def test_every_verb_needs_the_scope_of_the_rule() -> None:
    """G4: read, agent, decide, admin; whatever is not named here only reads."""
    found = {name: each.scope for name, each in VERBS.items()}
    named = {name: scope for scope, names in SCOPES.items() for name in names.split()}
    assert found == {name: named.get(name, Scope.READ) for name in VERBS}
    assert named.keys() <= VERBS.keys()


def test_questions_and_acts_are_told_apart_by_who_does_them() -> None:
    """A6: an act says who did it; a question changes nothing and says nothing."""
    for name, each in VERBS.items():
        assert each.has_actor is not each.is_question, name
        assert "by" not in {parameter.name for parameter in each.parameters}


def test_questions_that_work_for_their_answer_are_not_followed() -> None:
    followed = {name for name, each in VERBS.items() if each.is_followable}
    questions = {name for name, each in VERBS.items() if each.is_question}
    assert followed == questions - ONCE, "a question that cannot be followed stands in ONCE"


def test_every_verb_says_what_it_does_and_has_an_example_that_is_taken() -> None:
    """U6: arguments that are refused teach nothing."""
    for name, each in VERBS.items():
        assert each.doc, name
        read_arguments(each, each.example)


def test_a_verb_is_read_off_its_signature() -> None:
    events = VERBS["events"]
    shown = {
        each.name: (each.kind, each.is_required, each.is_keyword) for each in events.parameters
    }
    assert shown == {
        "workflow": (str, True, False),
        "topic": (str, False, True),
        "status": (str, False, True),
        "limit": (int, False, True),
        "after": (int, False, True),
    }
    defaults = {each.name: (each.default, each.is_nullable) for each in events.parameters}
    assert defaults["limit"] == (100, False)
    assert defaults["after"] == (None, True)
    (status,) = (each for each in events.parameters if each.name == "status")
    assert status.words == ("pending", "reserved", "consumed", "skipped")
    assert events.doc.startswith("List the events of a workflow")


def test_an_unknown_verb_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(NotFound, match=r'no verb "bus.emmit". Did you mean "bus.emit"\?'):
        VERBS.find("bus.emmit")
    for name in (*LIFE, "path", "_desk", "bus.subscribe", "bus.", "", "__init__"):
        with pytest.raises(NotFound):
            VERBS.find(name)


# -- Schemas --------------------------------------------------------------------------------------


def references(schema: Any) -> set[str]:
    """Collect every record a schema names."""
    if isinstance(schema, dict):
        own = {schema["$ref"]} if isinstance(schema.get("$ref"), str) else set()
        return own.union(*map(references, schema.values()))
    return set().union(*map(references, schema)) if isinstance(schema, list) else set()


def test_every_verb_has_a_schema_of_its_arguments_and_of_its_result() -> None:
    """U6: what a program may send and gets back can be read by a program."""
    schemas, records = describe(VERBS)
    assert schemas.keys() == VERBS.keys()
    named = {f"#/components/schemas/{name}" for name in records}
    assert references([*schemas.values(), records]) <= named
    takes, returns = schemas["events"]
    takes = records[takes["$ref"].rpartition("/")[2]]
    assert takes["required"] == ["workflow"]
    assert takes["additionalProperties"] is False
    assert takes["properties"]["limit"]["maximum"] == 2**53 - 1
    assert "pending" in str(takes["properties"]["status"])
    assert returns["items"] == {"$ref": "#/components/schemas/Event"}
    assert {"message_id", "title", "status"} <= records["Event"]["properties"].keys()


def test_nothing_but_the_methods_declares_a_verb() -> None:
    """U6: no face keeps a list of its own of what can be asked."""
    assert all(hasattr(getattr(Host, name), DECLARED) for name in VERBS if "." not in name)


async def test_the_source_that_examples_share_can_be_deployed(tmp_path: Path) -> None:
    """U6: an example that is refused teaches nothing."""
    async with Host(f"sqlite:///{tmp_path / 'duly.db'}") as host:
        args = {**VERBS["deploy"].example, "strict": True}
        told: Any = await perform(host, "deploy", args, by="ada", scope=Scope.ADMIN)
    assert (told["workflow"], told["findings"]) == ("invoices", [])
