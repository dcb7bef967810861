"""A real CalDAV server on loopback, Radicale, in a process of its own; and a way to look in."""

from __future__ import annotations

import subprocess
import sys
from base64 import b64encode
from http.client import HTTPConnection
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from duly.connectors.calendar import Calendar

HOST: Final = "127.0.0.1"
USER, PASSWORD = "ada", "pass word"
# A request whose body is cut off is refused: the server's own would wait, or keep the rest.
PROGRAM: Final = """
import sys
from io import BytesIO
from radicale import Application, config
from werkzeug.serving import make_server
given = config.load()
given.update({
    "auth": {"type": "htpasswd", "htpasswd_filename": sys.argv[1] + "/users",
        "htpasswd_encryption": "plain", "delay": "0"},
    "storage": {"filesystem_folder": sys.argv[1] + "/store", "_filesystem_fsync": "False"},
    "logging": {"level": "critical"},
}, "test", privileged=True)
radicale = Application(given)
def whole(environ, start_response):
    size = int(environ.get("CONTENT_LENGTH") or 0)
    body = environ["wsgi.input"].read(size)
    if len(body) < size:
        start_response("400 Bad Request", [("Content-Length", "0")])
        return [b""]
    environ["wsgi.input"] = BytesIO(body)
    return radicale(environ, start_response)
server = make_server("127.0.0.1", 0, whole, threaded=True)
print(server.server_port, flush=True)
server.serve_forever()
"""


class CalendarServer:
    """The server, with one user and as many calendars as are asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> Self:
        (self._folder / "users").write_text(f"{USER}:{PASSWORD}\n")
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", PROGRAM, str(self._folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def ask(self, method: str, path: str, body: str = "") -> tuple[int, str]:
        """Ask the server itself."""
        way = HTTPConnection(HOST, self.port, timeout=30)
        head = {"Authorization": f"Basic {b64encode(f'{USER}:{PASSWORD}'.encode()).decode()}"}
        try:
            way.request(method, f"/{USER}/{path}", body.encode(), head)
            answer = way.getresponse()
            return answer.status, answer.read().decode()
        finally:
            way.close()

    def texts(self, calendar: str) -> list[str]:
        """Read every event of a calendar from the disk of the server."""
        place = self._folder / "store" / "collection-root" / USER / calendar
        return [each.read_text() for each in sorted(place.glob("*.ics"))]

    def connect(self, calendar: str, port: int = 0, kind: Any = Calendar, **more: Any) -> Any:
        """Make a calendar if there is none, and a connector for it."""
        self.ask("MKCALENDAR", f"{calendar}/")
        url = f"http://{HOST}:{port or self.port}/{USER}/{calendar}"
        made = kind(url, USER, allow=[HOST], **more)
        made._vault = lambda connector, name: PASSWORD
        return made
