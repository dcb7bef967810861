"""An outside for real hosts: it counts every request, on loopback, in threads of the test."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.postgres.storm_bus import Told

CONNECTOR = """
import asyncio
import json
import urllib.error
import urllib.request
from pathlib import Path

import duly

PORT = (Path(__file__).parent.parent / "port").read_text()


def ask(path, body=None, timeout_s=5):
    request = urllib.request.Request(
        f"http://127.0.0.1:{PORT}/{path}", None if body is None else json.dumps(body).encode()
    )
    with urllib.request.urlopen(request, timeout=timeout_s) as answer:
        return json.loads(answer.read())


class Outside(duly.Connector):
    name = "outside"

    @duly.mutation(lag_s=0.2, timeout_s=3, noun="post")
    async def post(self, call: duly.Call, text: str) -> dict:
        return await self.in_thread(ask, "post", {"text": text, "key": call.key}, 3)

    @post.reconcile
    async def post_happened(self, call: duly.Call):
        found = await self.in_thread(ask, f"count/{call.args['text']}")
        return duly.Applied({}) if found["count"] else duly.NotApplied()
"""


class Counting:
    """What has been posted."""

    def __init__(self) -> None:
        self.posts: Counter[str] = Counter()
        self.told = Told()
        self.delay_s = 0.0
        self.lock = threading.Lock()

    def post(self, text: str) -> None:
        """Count a request; a slow outside takes effect first, and says so later."""
        with self.lock:
            self.posts[text] += 1
        time.sleep(self.delay_s)


def handler(counting: Counting) -> type[BaseHTTPRequestHandler]:
    """Make the class that answers requests."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(length))
            if self.path == "/tell":
                counting.told.tell(body["subscriber"], body["id"])
            else:
                counting.post(body["text"])
            self._say({})

        def do_GET(self) -> None:
            text = self.path.rpartition("/")[2]
            with counting.lock:
                self._say({"count": counting.posts[text]})

        def _say(self, answer: dict[str, Any]) -> None:
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            with suppress(OSError):  # the host that asked was killed
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    return Handler


def serve(counting: Counting) -> ThreadingHTTPServer:
    """Answer on a port of loopback, in threads of this process."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(counting))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
