"""A source is studied apart from the host: analysed in one locked process, typed in another (X2).

Law: within its limit, or refused by its name; the host and its workflows go on meanwhile (W6).
Where the host has no such process, in a simulation or in virtual time, a source is studied in a
thread: the sources there are the test's own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from duly.env import Env
from duly.errors import ScriptError
from duly.rules.access import MutateReads
from duly.rules.catalog import Catalog
from duly.rules.source import Source
from duly.sandbox.python_text import TypeQuestion
from duly.script import analysis
from duly.script import study as script
from duly.script.analysis import Analysis, Fingerprint
from duly.script.check import complete
from duly.script.finding import Finding
from duly.script.stubs import PYTHON_MODULE, python_stubs
from duly.script.study import Study, findings_in
from duly.script.type_check import findings_of, not_ended

STUDY = "study"  # the function that studies a source apart
FINGERPRINT = "fingerprint"  # the function that reads what a repair is compared by


@dataclass(frozen=True, slots=True)
class Apart:
    """The ways out of the host: to the processes that read sources, and to the type checker."""

    ask: Callable[[str, bytes], Awaitable[bytes]]
    check_types: Callable[[TypeQuestion], Awaitable[str | None]]


async def study(
    env: Env, apart: Apart | None, source: Source, catalog: Catalog, reads: MutateReads = "none"
) -> Study:
    """Read a source without its types; raises ScriptError past the limit."""
    if apart is None:
        return await env.call_blocking(lambda: script.study(source, catalog, reads))
    return script.answer(await apart.ask(STUDY, script.ask(source, catalog, reads)))


async def fingerprint(
    env: Env, apart: Apart | None, source: Source, catalog: Catalog
) -> Fingerprint | None:
    """Read what a repair is compared by; None where the text cannot be read to its end (F3)."""
    if apart is None:
        return await env.call_blocking(lambda: analysis.fingerprint(source, catalog))
    asked = script.ask(source, catalog, "none")
    try:
        return script.answer_fingerprint(await apart.ask(FINGERPRINT, asked))
    except ScriptError:
        return None


async def examine(
    env: Env, apart: Apart | None, source: Source, catalog: Catalog, reads: MutateReads = "none"
) -> tuple[tuple[Finding, ...], Analysis]:
    """Return every finding in a source, and its analysis; raises ScriptError past the limit."""
    if apart is None:
        # In a thread: it computes for a moment, and other workflows must not notice (W6).
        def both() -> tuple[tuple[Finding, ...], Analysis]:
            read = script.study(source, catalog, reads)
            return complete(source, catalog, read), read.analysis

        return await env.call_blocking(both)
    read = await study(env, apart, source, catalog, reads)
    types: tuple[Finding, ...] = ()
    if read.annotated is not None:
        question = TypeQuestion(read.annotated.text, python_stubs(catalog), PYTHON_MODULE)
        types = findings_of(source.name, read.annotated, await apart.check_types(question))
    elif read.is_typed:
        types = (not_ended(source.name),)
    return findings_in(source, read, types), read.analysis
