"""The scripts in the folder of the project: each is shown before it is deployed, and as shown.

Law 1  What is deployed is the text that a person saw: the button carries its hash. A file that
       changed meanwhile is shown as it is now, and nothing is deployed (M9).
Law 2  The page reads the file, never the host: no script is put to use by lying in a folder.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from duly.api.folder import ProjectFolder
from duly.api.registry import Scope
from duly.api.value import Json
from duly.errors import DulyError, Invalid
from duly.faces.web.connect import ask_foreign
from duly.faces.web.form import go, place_of
from duly.faces.web.guard import Entry, Visit, visit_of
from duly.faces.web.look import Sheet, render
from duly.faces.web.sign import read_form
from duly.faces.web.stream import still
from duly.words.done import tell_done

NO_FOLDER: Final = ProjectFolder(Path())
FIELDS: Final = ("name", "seen")
CONFLICT: Final = 409


def list_entries() -> Iterator[Entry]:
    """Make the entries of the list, of one script, and of its form."""
    yield Entry("/scripts", still(scripts), {"GET": Scope.DECIDE})
    yield Entry("/scripts/{name}", still(script), {"GET": Scope.DECIDE})
    yield Entry("/deploy-script", deploy, {"POST": Scope.DECIDE})


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
    return Sheet("script.html", await _look(visit_of(request), request.path_params["name"]))


async def deploy(request: Request) -> Response:
    """Deploy a script as it was shown (law 1)."""
    form = await read_form(request)
    for each in FIELDS:
        if each not in form:
            raise Invalid(code="missing", path=each, facts={"of": "deploy"})
    visit = visit_of(request)
    told = await _look(visit, form["name"])
    if told["seen"] != form["seen"]:
        return render(request, "script.html", CONFLICT, **{**told, "is_changed": True})
    made: Any = await visit.session.call(
        "deploy", source=told["source"], grant=form.get("grant") == "true", again=False
    )
    back = f"w/{made['workflow']}"
    if made["new"]:
        return go(request, back)
    return render(
        request, "done.html", told=tell_done("deploy", made, {}).sentence, place=place_of(back)
    )


async def _look(visit: Visit, name: str) -> dict[str, Any]:
    folder = visit.folder or NO_FOLDER
    read = await asyncio.to_thread(folder.read_script, name)
    source: Json = {"language": str(read.language), "text": read.text, "name": read.name}
    told: dict[str, Any] = {"name": name, "source": source, "seen": read.hash, "is_changed": False}
    told["foreign"] = await ask_foreign(visit)
    try:
        preview = await visit.session.call("preview", source=source, text_only=True)
    except DulyError as error:
        return {**told, "preview": None, "refused": str(error)}
    return {**told, "preview": preview, "refused": ""}
