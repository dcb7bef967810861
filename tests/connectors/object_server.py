"""A real S3 server on loopback: moto, in a process of its own; and a way to look into it."""

from __future__ import annotations

import re
import subprocess
import sys
from http.client import HTTPConnection
from types import TracebackType
from typing import Any, Final, Self

from duly.connectors.s3 import S3

HOST: Final = "127.0.0.1"
BUCKET: Final = "invoices"
# A request whose body is cut off is refused, as the service itself does; moto would keep the rest.
# Below `careless/` the server keeps to no precondition, as older servers do.
PROGRAM: Final = """
from io import BytesIO
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server
moto = DomainDispatcherApplication(create_backend_app)
def whole(environ, start_response):
    size = int(environ.get("CONTENT_LENGTH") or 0)
    body = environ["wsgi.input"].read(size)
    if len(body) < size:
        start_response("400 IncompleteBody", [("Content-Length", "0")])
        return [b""]
    environ["wsgi.input"] = BytesIO(body)
    if "/careless/" in environ["PATH_INFO"]:
        environ.pop("HTTP_IF_NONE_MATCH", None)
    return moto(environ, start_response)
server = make_server("127.0.0.1", 0, whole, threaded=True)
print(server.server_port, flush=True)
server.serve_forever()
"""
SECRETS: Final = {"access_key": "AKIAEXAMPLE", "secret_key": "the/secret+key"}


class ObjectServer:
    """The server, with one bucket."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", PROGRAM],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self.ask("PUT", f"/{BUCKET}")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def ask(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> bytes:
        """Ask the server itself, without a signature."""
        way = HTTPConnection(HOST, self.port, timeout=30)
        try:
            way.request(method, path, body, {"Authorization": "AWS s3", **(headers or {})})
            return way.getresponse().read()
        finally:
            way.close()

    def keys(self, prefix: str = "") -> list[str]:
        """List the keys that begin so."""
        found = self.ask("GET", f"/{BUCKET}?list-type=2&prefix={prefix}").decode()
        return re.findall(r"<Key>([^<]*)</Key>", found)

    def connect(self, prefix: str = "", port: int = 0, kind: Any = S3) -> Any:
        """Make a connector for objects whose keys begin so."""
        url = f"http://{HOST}:{port or self.port}"
        made = kind(url, BUCKET, prefix=prefix, allow=[HOST])
        made._vault = lambda connector, name: SECRETS[name]
        return made
