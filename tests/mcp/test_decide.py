"""A token or a session of the scope decide in an agent's hands: what stays a person's (M5, A6)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from duly.api.codec import perform
from duly.api.project import find_project
from duly.api.registry import VERBS, Scope
from duly.api.session import Session, connect
from duly.api.wire import name_actor, name_user
from duly.faces.mcp.server import AgentServer, Caller
from duly.faces.mcp.tool import ACT, ROWS, Tools
from duly.rules.source import Language, Source
from duly.testing import Stage
from tests.desk.stores import folder_of
from tests.desk.test_upkeep import restored
from tests.engine.stand import NAME, flow, opened

FLOW = """
from duly import workflow

flow = workflow("notes", topics={"wish": {"ingress": True}})


@flow.consumer("wish")
class keep:
    async def prepare(self, ctx, state):
        return {"reservations": []}
"""


# What an agent may do that a person gave the scope decide: it sends nothing that waits for a yes.
FOR_AGENTS = (
    "abandon decline reconnect reject revoke_allowance skip bus.cancel bus.discard bus.unsubscribe"
)
# What of the scope decide no agent does, with the reason in the decisions 210 and 540.
FOR_PERSONS = (
    "adopt allow amend answer approve approve_all choose_asks deploy grant revoke rollback settle "
    "write bus.resume bus.retry"
)


class Direct:
    """A session of a token with the scope decide."""

    def __init__(self, host: Any) -> None:
        self._host = host

    async def call(self, verb: str, /, **args: Any) -> Any:
        return await perform(self._host, verb, args, by="token:agent", scope=Scope.DECIDE)


class Silent:
    """A session that must not be spoken to."""

    async def call(self, verb: str, /, **args: Any) -> Any:
        raise AssertionError(verb)


async def test_no_verb_that_is_a_persons_leaves_the_hands_of_an_agent() -> None:
    """M5: every verb of the registry, in the largest scope there is."""
    session: Any = Silent()
    caller = Caller(session, Scope.ADMIN, "http://page")
    tools = Tools(VERBS)
    server = AgentServer(tools, lambda _: None)  # type: ignore[arg-type, return-value]
    acts = [each for each in VERBS.values() if not each.is_question]
    decided = {each.name: each.is_persons for each in acts if each.scope is Scope.DECIDE}
    assert {name for name, is_so in decided.items() if is_so} == {*FOR_PERSONS.split()}
    assert {name for name, is_so in decided.items() if not is_so} == {*FOR_AGENTS.split()}
    assert all(each.is_persons for each in VERBS.values() if each.scope is Scope.ADMIN)
    assert not any(each.is_persons for each in acts if Scope.AGENT.covers(each.scope))
    for name in (each.name for each in VERBS.values() if each.is_persons):
        said = await server._answer(caller, ACT, {"verb": name, "args": {}})
        assert json.loads(said.text)["error"]["code"] == "for_a_person", name
    assert not [row.name for row in ROWS if VERBS[row.verb].is_persons]


async def test_no_agent_lets_a_restored_host_send_again(duly_world: Stage) -> None:
    """M5, H5: the ledger does not know what was sent last, so a change could be made twice."""
    play = await opened(duly_world)
    await play.deploy(flow())
    copy = folder_of(duly_world) / "copy.db"
    await play.host.backup(copy)
    await restored(play, copy)
    session: Any = Direct(play.host)
    caller = Caller(session, Scope.DECIDE, "http://page")
    server = AgentServer(Tools(VERBS), lambda _: None)  # type: ignore[arg-type, return-value]
    letter = {"event_id": 1, "subscriber_id": "post:mail:send"}
    for verb, given in (("bus.resume", {}), ("bus.retry", letter)):
        said = await server._answer(caller, ACT, {"verb": verb, "args": given})
        assert json.loads(said.text)["error"]["code"] == "for_a_person", verb
    args = {"verb": "resume", "args": {"workflow": NAME}}
    said = await server._answer(caller, ACT, args)
    assert json.loads(said.text)["error"]["code"] == "for_a_person"
    assert (await play.host.workflow(NAME)).paused
    await play.host.resume(NAME)
    await play.host.pause(NAME)
    said = await server._answer(caller, ACT, args)  # a usual pause is no restore
    assert not said.is_error
    assert not (await play.host.workflow(NAME)).paused


@pytest.mark.parametrize("scope", Scope)
def test_a_session_that_gave_up_rights_is_no_person(scope: Scope) -> None:
    """A6, M6: `duly mcp` is an agent in every scope it can be started with."""
    name = name_user(0)
    assert name_actor(0, scope) == (name if scope is Scope.ADMIN else f"agent:{name}")


async def act(session: Session) -> None:
    await session.call("pause", workflow="notes")


async def test_what_an_agent_with_decide_did_is_told_apart(tmp_path: Path) -> None:
    """A6: also where no host runs and the store itself is spoken to."""
    (tmp_path / "duly.toml").write_text("")
    project = find_project(str(tmp_path), {}, tmp_path)
    source: Any = {"language": str(Language.PYTHON), "text": Source(Language.PYTHON, FLOW).text}
    async with connect(project) as person:
        await person.call("deploy", source=source)
        await act(person)
    async with connect(project, scope=Scope.DECIDE) as agent:
        await act(agent)
        done: Any = await agent.call("actions")
    actors = [each["by"] for each in done if each["verb"] == "pause"]
    assert sorted(each.startswith("agent:") for each in actors) == [False, True]
