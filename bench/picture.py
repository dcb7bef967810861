"""The picture of whole runs: what one run costs, in groups by the number of workflows.

A bar is the processor time of a run; its light part is that of child processes. Processor time
depends least on the disk and on what else the machine does, so the picture shows that and not the
speed. It is plain SVG, made of rectangles and text.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from bench.report import Row

WIDTH, LEFT, RIGHT, BAR, GAP, GROUP = 720, 130, 60, 16, 4, 34
OURS, OTHERS = "#0b6b45", "#56657a"
CHILDREN_OPACITY = 0.5
FONT = 'font-family="system-ui, sans-serif" font-size="12"'
TITLE = "Processor time of a whole run in ms (shorter is better); the light part is child processes"


def cost_ms(row: Row) -> float:
    """Return the processor time of one run, children included."""
    return (row.cpu_us + (row.children_us or 0.0)) / 1000


def draw(rows: Sequence[Row], said: str) -> str:
    """Draw the rows of whole runs."""
    scale = (WIDTH - LEFT - RIGHT) / max(cost_ms(row) for row in rows)
    parts: list[str] = []
    top = 16
    for workflows in dict.fromkeys(row.callers for row in rows):
        top += GROUP
        parts.append(_text(0, top - 8, f"{workflows:,} at once", weight="bold"))
        for row in rows:
            if row.callers == workflows:
                parts += _bar(row, top, scale)
                top += BAR + GAP
    height = top + GAP
    box = f'viewBox="0 0 {WIDTH} {height}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {box} {FONT} role="img">\n'
        f"<title>{escape(TITLE)}</title>\n<desc>{escape(said.replace('**', ''))}</desc>\n"
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>\n'
        + "\n".join([_text(0, 14, TITLE), *parts])
        + "\n</svg>\n"
    )


def _bar(row: Row, top: int, scale: float) -> list[str]:
    colour = OURS if row.name.startswith("Duly") else OTHERS
    own, whole = row.cpu_us / 1000 * scale, cost_ms(row) * scale
    place = f'y="{top}" height="{BAR}" fill="{colour}"'
    light = f'fill-opacity="{CHILDREN_OPACITY}"'
    return [
        _text(LEFT - 8, top + 12, row.name, anchor="end"),
        f'<rect x="{LEFT}" width="{own:.1f}" {place}/>',
        f'<rect x="{LEFT + own:.1f}" width="{whole - own:.1f}" {place} {light}/>',
        _text(LEFT + whole + 6, top + 12, f"{cost_ms(row):.1f}"),
    ]


def _text(x: float, y: float, words: str, anchor: str = "start", weight: str = "normal") -> str:
    more = f'text-anchor="{anchor}" font-weight="{weight}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {more}>{escape(words)}</text>'
