"""The page of all error codes, made from the table of sentences and from where errors are raised.

python -m tests.error_page --write      # or without, to see it
"""

from __future__ import annotations

import re
import sys

from duly import errors
from duly.errors import DulyError
from duly.words.error import SECTIONS
from tests import house
from tests.error_sites import Site, find_sites

PAGE = house.ROOT / "docs" / "errors.md"
HEAD = """# Errors

Every error of Duly has a `code`, a `subject` and `facts`. If there is one thing to do, it also has
`next`: a verb with its arguments. A program compares the code and reads the facts; the message is
for people and may change. The codes are the same words in the library, on the command line
(`--json`) and on the control socket.

```text
{"error": {"kind": "NotFound", "code": "no_workflow", "subject": "mial",
           "facts": {"near": "mail"}, "next": {"verb": "workflows", "args": {}, …},
           "message": "There is no workflow \\"mial\\". Did you mean \\"mail\\"?"}}
```

In the tables a word in capitals stands for a fact. Words in square brackets are shown only if the
fact is known. Where the last column is empty, the first sentence says all there is to do, or there
is nothing to do. An error that a connector raises has the code of its class, and the connector's
own words.
`python -m tests.error_page --write` makes this page.
"""


def page() -> str:
    """Write the page."""
    sites = find_sites()
    parts = [HEAD, *_sections(sites), _classes()]
    return "\n".join(parts)


def _sections(sites: list[Site]) -> list[str]:
    made = []
    for title, section in SECTIONS.items():
        rows = [f"## {title}\n", "| code | what happened | what to do |", "|---|---|---|"]
        for code, (what, todo) in sorted(section.items()):
            verbs = sorted({site.verb for site in sites if site.code == code and site.verb})
            offered = " ".join(f"Next: `{verb}`." for verb in verbs)
            rows.append(
                f"| `{code}` | {_show(what)} | {' '.join(filter(None, (_show(todo), offered)))} |"
            )
        made.append("\n".join([*rows, ""]))
    return made


def _show(template: str) -> str:
    template = template.replace("{nearest}", "Use the name that is proposed, or one that exists.")
    text = re.sub(r"(?<!\{)\{(\w+)(?::\w+)?\}(?!\})", lambda found: found[1].upper(), template)
    return text.replace("{{", "{").replace("}}", "}").replace("|", "\\|")


def _classes() -> str:
    kinds = [
        each
        for each in vars(errors).values()
        if isinstance(each, type) and issubclass(each, DulyError)
    ]
    first = {each: (each.__doc__ or "").splitlines()[0] for each in kinds}
    rows = [
        "## Classes\n",
        "An error that says nothing more has the code of its class.\n",
        "| class | code | what happened |",
        "|---|---|---|",
        *(
            f"| `{each.__name__}` | `{each.default_code}` | {line} |"
            for each, line in first.items()
        ),
    ]
    return "\n".join([*rows, ""])


def main() -> None:
    """Print the page, or write it."""
    if "--write" in sys.argv:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(page())


if __name__ == "__main__":
    main()
