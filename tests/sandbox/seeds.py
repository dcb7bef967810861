"""Workflows in the form the product was first described in: where they are found, what they do.

The pages that form was first written on are not part of this repository. Where they lie beside it,
their modules are run as they stand; the workflows in `examples/` are of the same form and are run
everywhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from duly.rules.catalog import Catalog, Parameter, Tool, ToolKind
from duly.rules.source import SUFFIXES, Source
from tests.sandbox import contract

ROOT = Path(__file__).parents[2]
PAGES = ROOT.parent / "shared" / "seeds"
EXAMPLES = ROOT / "examples"
MODULE = re.compile(r"^```js\n(export default .*?)^```$", re.MULTILINE | re.DOTALL)
DIGEST = re.compile(r"^```ts\n(async prepare\(ctx, state\).*?)^```$", re.MULTILINE | re.DOTALL)

CATALOG = Catalog(
    (
        *contract.CATALOG.tools,
        Tool(
            "outbox.write",
            ToolKind.MUTATION,
            "outbox.write",
            parameters=(Parameter("path"), Parameter("text")),
        ),
    )
)

# The page leaves these two to the reader; the step itself is its own.
DIGEST_MODULE = """\
const getNextDigestTime = () => "2027-01-16T09:00:00.000Z";
const isDigestTime = () => new Date().getUTCHours() === 9;
export default Keep.workflow({{
  name: "digest",
  topics: ["notifications"],
  consumers: {{
    digest: Keep.consumer({{
      subscribe: ["notifications"],
{prepare}
    }}),
  }},
}});
"""


@dataclass(frozen=True, slots=True)
class Mailing:
    """A workflow that turns mail into rows, and the names it uses for that."""

    name: str
    text: str
    workflow: str
    producer: str = "pollEmail"
    consumer: str = "processEmail"
    received: str = "email.received"
    created: str = "row.created"

    def __str__(self) -> str:
        return self.name


def mailings() -> list[Mailing]:
    """Find the modules of the pages, and our own of the same form."""
    found = [
        Mailing(path.stem.partition("_")[0], text, re.findall(r'name: "(.*)"', text)[0])
        for path in sorted(PAGES.glob("*.txt"))
        for text in MODULE.findall(path.read_text(encoding="utf-8"))
    ]
    ours = (EXAMPLES / "mail_to_table.js").read_text(encoding="utf-8")
    return [
        *found,
        Mailing(
            "ours",
            ours,
            "mail-to-table",
            "poll",
            "file",
            received="mail.received",
            created="row.added",
        ),
    ]


def digests() -> dict[str, str]:
    """Find the page's digest, wrapped in a module; where there is no page, one of its form."""
    found = {
        path.stem.partition("_")[0]: DIGEST_MODULE.format(prepare=text)
        for path in sorted(PAGES.glob("*.txt"))
        for text in DIGEST.findall(path.read_text(encoding="utf-8"))
        if "isDigestTime" in text
    }
    return {**found, "ours": DIGEST_MODULE.format(prepare=OUR_DIGEST)}


OUR_DIGEST = """\
async prepare(ctx, state) {
  const notes = await ctx.peek("notifications");
  const wakeAt = getNextDigestTime();
  if (!isDigestTime()) return { reservations: [], data: {}, wakeAt };
  const ids = notes.map((note) => note.id);
  return { reservations: [{ topic: "notifications", ids }], data: { items: notes }, wakeAt };
}
"""


def examples() -> list[str]:
    """Name the examples; each stands there in both languages."""
    return sorted({path.stem for path in EXAMPLES.iterdir() if path.suffix in SUFFIXES})


def example(name: str, suffix: str) -> Source:
    """Read one example in one language."""
    path = EXAMPLES / f"{name}{suffix}"
    return Source(SUFFIXES[suffix], path.read_text(encoding="utf-8"), path.name)
