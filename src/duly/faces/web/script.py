"""Scripts before they are deployed, from the folder of the project or pasted: shown, then as shown.

Law 1  What is deployed is the text that a person saw: the button carries its hash. A file that
       changed meanwhile is shown as it is now, and nothing is deployed (M9).
Law 2  The page reads the file, never the host: no script is put to use by lying in a folder.
Law 3  Nothing is allowed by a tick that stood there: a person sets each, or presses the button that
       allows all that is shown. What a script asks for grows with the connections of the host: if
       it is not what was shown, it is shown anew.
Law 4  What a person took back after a form was shown is not given back by that form, however often
       and whenever a browser sends it: it is shown anew, with who took it and when. Nor does it
       take back what was chosen since about when a person is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from duly.api.folder import ProjectFolder
from duly.api.registry import Scope
from duly.api.session import Session
from duly.api.value import Json
from duly.errors import DulyError, Invalid
from duly.faces.web.body import BODY_BYTES_MAX, Large
from duly.faces.web.choice import ASKS
from duly.faces.web.connect import ask_foreign
from duly.faces.web.form import BACK, go, place_of
from duly.faces.web.guard import Endpoint, Entry, Visit, visit_of
from duly.faces.web.look import Sheet, render
from duly.faces.web.sign import read_form
from duly.faces.web.stream import still
from duly.words.approval import asks_less
from duly.words.done import tell_done

NO_FOLDER: Final = ProjectFolder(Path())
CONFLICT: Final = 409
UNFIT: Final = 400  # it says two things that do not go together
NAME: Final = "name"  # of a file in the folder
PASTED: Final = ("source.language", "source.text")
SEEN: Final = "seen"  # the hash of the text that was shown
ASKED: Final = "asked"  # the hash of what it asks to be allowed, as it was shown
TRIED: Final = "tried"  # asks what it would do with the data of today
GRANT: Final = "grant"  # allows all that is shown
ALLOW: Final = "allow."  # before the name of a capability that was ticked


@dataclass(frozen=True, slots=True)
class Asked:
    """A capability that a script asks for, with its tools, and whether a person has ticked it."""

    capability: str
    tools: tuple[str, ...]
    changes: bool
    is_granted: bool
    is_ticked: bool
    taken_back: Mapping[str, Any] | None
    seen: str
    asks: tuple[Mapping[str, Any], ...]

    @property
    def now(self) -> dict[str, str]:
        """Return by which rule each tool asks, as it stands with the grant."""
        return {each["tool"]: each["chosen"] for each in self.asks}

    def read_chosen(self) -> dict[str, str]:
        """Read when a person wants to be asked before a tool, where it is not what stands now."""
        changed = (each for each in self.asks if each["typed"] != each["chosen"])
        return {each["tool"]: each["typed"] for each in changed}

    def untyped(self) -> Asked:
        """Show what stands now, not what was typed over what stood before."""
        return replace(self, asks=tuple({**each, "typed": each["chosen"]} for each in self.asks))


def list_entries() -> Iterator[Entry]:
    """Make the entries of the list, of one script, of a pasted one, and of their form."""
    large = Large()
    yield Entry("/scripts", still(scripts), {"GET": Scope.DECIDE})
    yield Entry("/scripts/{name}", still(script), {"GET": Scope.DECIDE})
    yield Entry("/preview", _endpoint(large, is_deployed=False), {"POST": Scope.DECIDE})
    yield Entry("/deploy-script", _endpoint(large, is_deployed=True), {"POST": Scope.DECIDE})


async def list_scripts(visit: Visit) -> list[str]:
    """List the scripts that a caller could deploy."""
    if visit.folder is None or not visit.may("/act/deploy"):
        return []
    return await asyncio.to_thread(visit.folder.list_scripts)


async def scripts(request: Request) -> Sheet:
    """List the scripts of the project."""
    return Sheet("scripts.html", {"scripts": await list_scripts(visit_of(request))})


async def script(request: Request) -> Sheet:
    """Show one script: what it will do in words, and its text."""
    given = {NAME: request.path_params["name"]}
    return Sheet("script.html", await _look(visit_of(request), given))


def _endpoint(large: Large, *, is_deployed: bool) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        form = await read_form(request, BODY_BYTES_MAX)
        async with large.turn(sum(map(len, form.values()))):
            if is_deployed:
                return await _deploy(request, form)
            return render(request, "script.html", **await _look(visit_of(request), form))

    return endpoint


async def _deploy(request: Request, form: Mapping[str, str]) -> Response:
    """Deploy a script as it was shown (law 1)."""
    if SEEN not in form:
        raise Invalid(code="missing", path=SEEN, facts={"of": "deploy"})
    session = visit_of(request).session
    told = await _look(visit_of(request), form)
    is_all = form.get(GRANT) == "true"
    decides = is_all or any(name.startswith((ALLOW, ASKS)) for name in form)
    is_other = form.get(ASKED, "" if decides else told["asked_hash"]) != told["asked_hash"]
    if told["seen"] != form[SEEN] or is_other:
        anew = {"asked": [each.untyped() for each in told["asked"]], "is_changed": True}
        return render(request, "script.html", CONFLICT, **{**told, **anew})
    lacking = [each for each in told["asked"] if not each.is_granted]
    ticked = [each.capability for each in lacking if each.is_ticked]
    is_whole = is_all or (bool(lacking) and len(ticked) == len(lacking))
    allowed = [each.capability for each in lacking] if is_whole else ticked
    chosen = {each.capability: words for each in told["asked"] if (words := each.read_chosen())}
    left = [each.capability for each in lacking if each.capability in chosen.keys() - {*allowed}]
    if left:
        return render(request, "script.html", UNFIT, **{**told, "unallowed": left})
    # Asked more before a run of the new version begins; asked less only if it was deployed (A3).
    await _choose(session, told, chosen, is_less=False)
    seen: dict[str, Json] = {each.capability: each.seen for each in lacking}
    rights: dict[str, Json] = {each: seen[each] for each in allowed if each not in chosen}
    made: Any = await session.call("deploy", source=told["source"], rights=rights, again=False)
    # A run that begins before its grant waits, and goes on with it (F4).
    for each in (one for one in allowed if one in chosen):
        rules: dict[str, Json] = {tool: word for tool, word in chosen[each].items() if word}
        given: dict[str, Json] = {"asks": rules, "seen": seen[each]}
        await session.call("grant", workflow=made["workflow"], capability=each, **given)
    await _choose(session, told, chosen, is_less=True)
    back = form.get(BACK) or f"w/{made['workflow']}"
    if made["new"]:
        return go(request, back)
    sentence = tell_done("deploy", made, {}).sentence
    return render(request, "done.html", told=sentence, place=place_of(back))


async def _choose(
    session: Session,
    told: Mapping[str, Any],
    chosen: Mapping[str, Mapping[str, str]],
    *,
    is_less: bool,
) -> None:
    """Keep what was chosen for what is allowed already: what asks less, or the rest."""
    for each in told["asked"]:
        now = each.now
        asks: dict[str, Json] = {
            tool: word
            for tool, word in chosen.get(each.capability, {}).items()
            if asks_less(word, now[tool]) is is_less
        }
        if each.is_granted and asks:
            await session.call(
                "choose_asks",
                workflow=told["preview"]["workflow"],
                capability=each.capability,
                asks=asks,
                seen={tool: now[tool] for tool in asks},
            )


async def _look(visit: Visit, given: Mapping[str, str]) -> dict[str, Any]:
    """Say all that a person needs to know about a script; its mistakes, if it has some."""
    source, seen = await _read(visit, given)
    is_tried = given.get(TRIED) == "true"
    told: dict[str, Any] = {
        "name": given.get(NAME, ""),
        "source": source,
        "seen": seen,
        "back": given.get(BACK, ""),
        "is_changed": False,
        "unallowed": [],
        "is_tried": is_tried,
        "foreign": await ask_foreign(visit),
        "asked": [],
        "asked_hash": "",
        "preview": None,
        "refused": "",
        "found": await _check(visit.session, source),
    }
    how = {"text_only": not is_tried, "grant": is_tried}
    try:
        preview: Any = await visit.session.call("preview", source=source, **how)
    except DulyError as error:
        return {**told, "refused": str(error)}
    asked = _list_asked(preview, given)
    return {**told, "preview": preview, "asked": asked, "asked_hash": _hash(asked)}


def _hash(asked: Sequence[Asked]) -> str:
    """Name what a script asks to be allowed; what is ticked or granted already may differ.

    What was taken back is part of it, and when a person is asked: a form that is sent again gives
    nothing back and takes no choice back (law 4).
    """
    named = sorted([each.capability, each.changes, each.taken_back, each.now] for each in asked)
    return sha256(msgspec.json.encode(named)).hexdigest()


async def _read(visit: Visit, given: Mapping[str, str]) -> tuple[dict[str, Json], str]:
    """Read a file of the folder, or what was pasted; return it with the hash of its text."""
    if NAME in given:
        folder = visit.folder or NO_FOLDER
        read = await asyncio.to_thread(folder.read_script, given[NAME])
        return {"language": str(read.language), "text": read.text, "name": read.name}, read.hash
    for each in PASTED:
        if each not in given:
            raise Invalid(code="missing", path=each, facts={"of": "deploy"})
    # A browser sends every line of a field with the line end of Windows.
    language, text = given[PASTED[0]], given[PASTED[1]].replace("\r\n", "\n")
    return {"language": language, "text": text}, sha256(text.encode()).hexdigest()


async def _check(session: Session, source: Mapping[str, Json]) -> list[Any]:
    """List what is wrong with a script, line by line; what refuses it otherwise is said once."""
    try:
        found: Any = await session.call("check", source=dict(source))
    except DulyError:
        return []
    return list(found)


def _list_asked(preview: Mapping[str, Any], given: Mapping[str, str]) -> list[Asked]:
    """List what a script asks to be allowed, with the tools that need it."""
    uses = [*preview["reads"], *preview["changes"]]
    return [
        Asked(
            capability=each["capability"],
            tools=tuple(one["tool"] for one in uses if one["capability"] == each["capability"]),
            changes=each["changes"],
            is_granted=each["is_granted"],
            is_ticked=f"{ALLOW}{each['capability']}" in given,
            taken_back=each["taken_back"],
            seen=each["seen"],
            asks=tuple(
                {**one["asks"], "typed": given.get(f"{ASKS}{one['tool']}", one["asks"]["chosen"])}
                for one in preview["changes"]
                if one["capability"] == each["capability"]
            ),
        )
        for each in preview["capabilities"]
    ]
