"""Traces for a collector of OpenTelemetry: OTLP over HTTP, as JSON.

Law 1  Off unless an address is given: in `[otel]` of the settings, or by the standard variables.
Law 2  A run never waits for a trace. Spans go into a queue that is bounded; what does not fit, and
       what a collector does not take in time, is dropped and counted. Of its answer the status
       is read, and nothing else.
Law 3  A span carries what `duly.observed` allows: ids and words of ours.
Law 4  A log shows neither a header nor the part of the address that may be a password.

The ids of a trace are made from the id of its run, so that the run that published an event can be
linked to without having been seen here.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from duly import __version__
from duly.api.clock import Env
from duly.observed import Span, SpanKind, observing

if TYPE_CHECKING:
    from duly.api.project import Project

QUEUE_MAX: Final = 2_048  # spans that wait to be sent; further ones are dropped
BATCH_MAX: Final = 512  # spans of one request
PAUSE_S: Final = 1.0  # between two requests
ANSWER_S_MAX: Final = 5.0  # how long a collector has
LAST_S_MAX: Final = 1.0  # how long it has when the host stops
COMPLAIN_S: Final = 600.0  # a collector that takes nothing is worth a line this often
TRACES: Final = "/v1/traces"
RUN_PREFIX: Final = "run_"
KINDS: Final = {SpanKind.RUN: 1, SpanKind.STEP: 1, SpanKind.CALL: 3, SpanKind.MODEL: 3}
FAILED: Final = 2
NAMES: Final = {  # how a fact is called in a span, where OpenTelemetry has a word of its own
    "tokens_in": "gen_ai.usage.input_tokens",
    "tokens_out": "gen_ai.usage.output_tokens",
}

log = logging.getLogger("duly.otel")


@dataclass(frozen=True, slots=True)
class Target:
    """Where traces go, and with which headers."""

    url: str
    headers: Mapping[str, str]
    name: str

    @property
    def shown(self) -> str:
        """The address without user, password and query (law 4)."""
        scheme, _, rest = self.url.partition("://")
        return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}"

    @property
    def is_plain(self) -> bool:
        """Whether it has no certificate to look at, which are read for nothing then."""
        return self.url.lower().startswith("http:")


def find_target(endpoint: str | None, environ: Mapping[str, str]) -> Target | None:
    """Return where traces go; the settings come before the variables of OpenTelemetry."""
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    base = endpoint or environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    url = None if base is None else base.rstrip("/") + TRACES
    if endpoint is None:
        url = environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or url
    if not url:
        return None
    pairs = (
        each.partition("=") for each in environ.get("OTEL_EXPORTER_OTLP_HEADERS", "").split(",")
    )
    headers = {key.strip(): unquote(value.strip()) for key, _, value in pairs if key.strip()}
    return Target(url, headers, environ.get("OTEL_SERVICE_NAME") or "duly")


@asynccontextmanager
async def traced(project: Project, env: Env) -> AsyncIterator[None]:
    """Send traces of what the host does in here, if there is a place for them."""
    target = find_target(project.config.otel.endpoint, os.environ)
    if target is None:
        yield
        return
    exporter = Exporter(target, env)
    sending = asyncio.ensure_future(exporter.send_all())
    log.info("Traces go to %s", target.shown)
    try:
        with observing(exporter):
            yield
    finally:
        sending.cancel()
        with suppress(asyncio.CancelledError):
            await sending
        await exporter.send_last()


class Exporter:
    """Takes spans, and sends them in batches beside the work."""

    def __init__(self, target: Target, env: Env) -> None:
        self._target = target
        self._env = env
        self._waiting: deque[dict[str, Any]] = deque()
        self._arrived = asyncio.Event()
        self._complained_at: int | None = None
        self.dropped = 0

    def now_ms(self) -> int:
        """Return the wall clock, in milliseconds since 1970 UTC."""
        return self._env.now_ms()

    def ended(self, span: Span) -> None:
        """Keep a span until the next request; drop it if too many wait."""
        if len(self._waiting) >= QUEUE_MAX:
            self.dropped += 1
            return
        self._waiting.append(write_span(span, self._env.random_bytes))
        self._arrived.set()

    async def send_all(self) -> None:
        """Send what arrives, for as long as the host works."""
        while True:
            await self._arrived.wait()
            await self._env.sleep(PAUSE_S)
            self._arrived.clear()
            while self._waiting:
                await self._send(ANSWER_S_MAX)

    async def send_last(self) -> None:
        """Send one more batch when the host stops, in a second at most."""
        if self._waiting:
            await self._send(LAST_S_MAX)

    async def _send(self, most_s: float) -> None:
        batch = [self._waiting.popleft() for _ in range(min(BATCH_MAX, len(self._waiting)))]
        why = ""
        try:
            async with asyncio.timeout(most_s):
                status = await _post(self._target, write_request(self._target.name, batch))
            if status // 100 != 2:
                why = f"it answered {status}"
        except Exception as error:
            # The collector is no part of the work: what is wrong with it stays here.
            why = type(error).__name__  # its text can be a header (law 4)
        if why:
            self.dropped += len(batch)
            self._complain(why)

    def _complain(self, why: str) -> None:
        now = self._env.monotonic_ms()
        if self._complained_at is None or now - self._complained_at >= COMPLAIN_S * 1000:
            self._complained_at = now
            said = "Traces are dropped, %d so far: %s takes none (%s)"
            log.warning(said, self.dropped, self._target.shown, why)


async def _post(target: Target, body: bytes) -> int:
    import httpx2

    headers = {**target.headers, "Content-Type": "application/json"}
    is_sealed = not target.is_plain
    async with (
        httpx2.AsyncClient(verify=is_sealed, timeout=ANSWER_S_MAX, trust_env=False) as client,
        client.stream("POST", target.url, content=body, headers=headers) as answer,
    ):
        return int(answer.status_code)


def trace_of(run: str) -> str:
    """Return the id of the trace of a run, which is made from the run's own id."""
    return sha256(f"trace {run}".encode()).hexdigest()[:32]


def span_of(run: str) -> str:
    """Return the id of the first span of a run."""
    return sha256(f"span {run}".encode()).hexdigest()[:16]


def write_request(name: str, spans: Sequence[Mapping[str, Any]]) -> bytes:
    """Write one request of OTLP."""
    about = {"service.name": name, "service.version": __version__}
    scope = {"scope": {"name": "duly", "version": __version__}, "spans": spans}
    whole = {
        "resourceSpans": [
            {"resource": {"attributes": list(_attributes(about))}, "scopeSpans": [scope]}
        ]
    }
    return json.dumps(whole, separators=(",", ":")).encode()


def write_span(span: Span, random_bytes: Callable[[int], bytes]) -> dict[str, Any]:
    """Write one span as OTLP has it; its id is kept with it, for its children come first."""
    facts = {f"duly.{span.kind}": span.name, **_named(span.facts), "duly.run": span.run}
    written: dict[str, Any] = {
        "traceId": trace_of(span.run),
        "spanId": _id_of(span, random_bytes),
        "name": f"{span.kind} {span.name}",
        "kind": KINDS[span.kind],
        "startTimeUnixNano": str(span.begun_at_ms * 1_000_000),
        "endTimeUnixNano": str(span.ended_at_ms * 1_000_000),
        "attributes": list(_attributes(facts)),
    }
    if span.parent is not None:
        written["parentSpanId"] = _id_of(span.parent, random_bytes)
    elif not span.is_first:
        written["parentSpanId"] = span_of(span.run)
    if span.has_failed:
        written["status"] = {"code": FAILED}
    if links := [each for each in span.links if each.startswith(RUN_PREFIX)]:
        written["links"] = [
            {
                "traceId": trace_of(each),
                "spanId": span_of(each),
                "attributes": list(_attributes({"duly.run": each})),
            }
            for each in links
        ]
    return written


def _id_of(span: Span, random_bytes: Callable[[int], bytes]) -> str:
    if span.kind is SpanKind.RUN and span.is_first:
        return span_of(span.run)
    if not span.id:
        span.id = random_bytes(8).hex()
    return span.id


def _named(facts: Mapping[str, str | int]) -> dict[str, str | int]:
    return {NAMES.get(name, f"duly.{name}"): value for name, value in facts.items()}


def _attributes(facts: Mapping[str, str | int]) -> Iterator[dict[str, Any]]:
    for key, value in facts.items():
        kind = "stringValue" if isinstance(value, str) else "intValue"
        yield {"key": key, "value": {kind: value if isinstance(value, str) else str(value)}}
