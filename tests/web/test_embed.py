"""The application inside another one: a real FastAPI around it, on one event loop (G3, G8)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
from fastapi import FastAPI

import duly.web
from duly.api.registry import Scope
from tests.web.stand import Web, serving


def around(web: Web) -> FastAPI:
    """Make an application that has a route of its own and the page of a host below a path."""
    application = FastAPI()

    @application.get("/mine")
    async def mine() -> dict[str, Any]:
        return {"workflows": len(await web.host.workflows())}

    application.mount("/duly", duly.web.app(web.host, hosts=["tasks.example.org"]))
    return application


async def test_a_page_is_mounted_in_an_application_of_fastapi(tmp_path: Path) -> None:
    """G3: it keeps its own guard, whatever the application around it lets in."""
    async with serving(tmp_path) as web:
        await web.deploy()
        transport = httpx2.ASGITransport(app=around(web))
        headers = {"authorization": f"Bearer {web.tokens[Scope.ADMIN]}"}
        async with httpx2.AsyncClient(
            transport=transport, base_url="http://tasks.example.org"
        ) as one:
            assert (await one.get("/mine")).json() == {"workflows": 1}
            assert (await one.get("/duly/api/v1/workflows")).status_code == 401
            told = await one.get("/duly/api/v1/workflows?limit=1", headers=headers)
            assert [each["name"] for each in told.json()] == ["invoices"]
            assert told.headers["link"].startswith(
                "</duly/api/v1/workflows?limit=1&after=invoices>"
            )
            page = await one.get("/duly/", headers=headers)
            assert 'href="/duly/static/page.css?v=' in page.text
            assert 'href="/duly/w/invoices"' in page.text
            assert (await one.get("/duly/static/page.css")).status_code == 200
            code = (await web.host.new_link(scope=Scope.ADMIN)).code
            own = {"sec-fetch-site": "same-origin"}
            done = await one.post("/duly/sign-in", data={"code": code, "name": "x"}, headers=own)
            assert (done.status_code, done.headers["location"]) == (303, "/duly/")
        async with httpx2.AsyncClient(transport=transport, base_url="http://evil.example") as two:
            assert (await two.get("/mine")).status_code == 200
            assert (await two.get("/duly/healthz")).status_code == 421
