"""Where a host that serves tells what it does: its log on stderr, and a status below it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from duly.api.text import visible


class Visibly(logging.Formatter):
    """Writes records so that nothing in them is unseen, and no line looks like another record's."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record; its further lines are indented."""
        return visible(super().format(record), is_block=True).replace("\n", "\n  ")


@contextmanager
def logging_to_stderr(*, verbose: bool, quiet: bool) -> Iterator[Callable[[str], None] | None]:
    """Write the log to stderr; on a terminal answer what shows a status below it."""
    level = logging.DEBUG if verbose else logging.WARNING if quiet else logging.INFO
    root = logging.getLogger("duly")
    with _handler() as (handler, show_status):
        handler.setFormatter(
            Visibly("%(asctime)s %(levelname)-7s %(message)s", "%Y-%m-%d %H:%M:%S%z")
        )
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
def _handler() -> Iterator[tuple[logging.Handler, Callable[[str], None] | None]]:
    if not sys.stderr.isatty():
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
