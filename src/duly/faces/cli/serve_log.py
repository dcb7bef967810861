"""Where a host that serves tells what it does: its log on stderr, and a status below it."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

from duly.api.text import visible

IDS: Final = "duly_ids"  # the attribute of a record that has its ids


class Visibly(logging.Formatter):
    """Writes records so that nothing in them is unseen, and no line looks like another record's."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record; its further lines are indented."""
        return visible(super().format(record), is_block=True).replace("\n", "\n  ")


class JsonLines(logging.Formatter):
    """Writes each record as one line of JSON, with the ids that its caller gave to it.

    `why` of each line is what `duly why` takes; the others name what the line is about.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Write a record."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"at": at, "level": record.levelname.lower(), "logger": record.name}
        line["message"] = visible(record.getMessage(), is_block=True)
        line |= getattr(record, IDS, {})
        if record.exc_info:
            line["trace"] = visible(self.formatException(record.exc_info), is_block=True)
        return json.dumps(line, ensure_ascii=True)


@contextmanager
def logging_to_stderr(
    *, verbose: bool, quiet: bool, as_json: bool = False
) -> Iterator[Callable[[str], None] | None]:
    """Write the log to stderr; on a terminal answer what shows a status below it."""
    level = logging.DEBUG if verbose else logging.WARNING if quiet else logging.INFO
    root = logging.getLogger("duly")
    with _handler(is_plain=as_json) as (handler, show_status):
        plain = Visibly("%(asctime)s %(levelname)-7s %(message)s", "%Y-%m-%d %H:%M:%S%z")
        handler.setFormatter(JsonLines() if as_json else plain)
        before = (root.level, root.propagate)
        root.setLevel(level)
        root.propagate = False
        root.addHandler(handler)
        try:
            yield None if quiet else show_status
        finally:
            root.removeHandler(handler)
            root.setLevel(before[0])
            root.propagate = before[1]


@contextmanager
def _handler(*, is_plain: bool) -> Iterator[tuple[logging.Handler, Callable[[str], None] | None]]:
    if is_plain or not sys.stderr.isatty():
        yield logging.StreamHandler(sys.stderr), None
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    # What a channel writes to stdout goes to stdout, also where that is a file.
    with Live(
        Text(""),
        console=console,
        auto_refresh=False,
        transient=True,
        redirect_stdout=sys.stdout.isatty(),
    ) as live:

        class Above(logging.Handler):
            """Writes above the status."""

            def emit(self, record: logging.LogRecord) -> None:
                console.print(Text(self.format(record)), soft_wrap=True)  # a link stays whole

        def show_status(text: str) -> None:
            live.update(Text(text, style="dim", overflow="ellipsis", no_wrap=True), refresh=True)

        yield Above(), show_status
