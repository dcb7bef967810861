"""A connector of another package is shown as what it is, wherever something is granted to it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from duly.api.build import build_host
from duly.api.door import Within
from duly.api.folder import ProjectFolder
from duly.faces.web.app import make_app
from duly.faces.web.guard import Place
from duly.rules.source import Language, Source
from duly.testing.exam_record import hash_code, record_exam
from tests.api.test_elsewhere import FLOW, SERVED, install, project
from tests.web.stand import ask
from tests.web.test_page import signed

PLACES = ("/settings", "/connect/pot", "/w/pots/setup", "/scripts/pots.py")


async def test_the_exam_and_the_hash_stand_where_something_is_granted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K14: as `duly grant` says it; of the code that the host was built with."""
    install(tmp_path / "site", "acme-jug", "pot = acme_jug:Tea")
    package = tmp_path / "site" / "acme_jug"
    package.mkdir()
    (package / "__init__.py").write_text(SERVED)
    record_exam(package, {"brew": 38})
    monkeypatch.syspath_prepend(tmp_path / "site")
    sys.modules.pop("acme_jug", None)
    scripts = tmp_path / "workflows"
    scripts.mkdir()
    (scripts / "pots.py").write_text(FLOW)
    host = build_host(project(tmp_path, "pot"))
    code = hash_code(package)
    (package / "__init__.py").write_text(f"{SERVED}\n")  # a later install is not what runs
    told = f"pot is of another package: acme-jug 1.0, code {code[:12]}; it says it passed its exam"
    async with host:
        await host.deploy(Source(Language.PYTHON, FLOW))
        other = Source(Language.PYTHON, FLOW.replace("Brew", "Boil"))
        proposed = await host.propose(other)
        place = Place(folder=ProjectFolder(tmp_path, scripts))
        app, headers = make_app(Within(host), place), await signed(SimpleNamespace(host=host))
        for path in (*PLACES, f"/proposals/{proposed.hash}"):
            reply = await ask(app, path, headers=headers)
            assert (reply.status, f"{told}: brew at 38 points." in reply.text) == (200, True), path
        assert code in (await ask(app, PLACES[1], headers=headers)).text
        shown = [each.foreign for each in await host.connections() if each.foreign is not None]
        assert [(each.code, each.is_stale) for each in shown] == [(code, False)]
    sys.modules.pop("acme_jug", None)
