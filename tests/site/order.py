"""The order of the site: which pages stand under which heading of the menu.

A page of `docs/` that no row names still becomes a page: it stands under the last heading.
"""

from __future__ import annotations

from typing import Final

VERBS: Final = "docs/verbs.md"  # made from the registry; no file
DECISIONS: Final = "docs/decisions/README.md"  # a list of the decisions; no file
REST: Final = "More"

# Headings of the menu, and below each the pages by their path.
MENU: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("Start here", ("docs/index.md", "docs/demo.md")),
    ("Ten minutes", ("docs/path-page.md", "docs/getting-started.md", "docs/path-agent.md")),
    (
        "How to",
        (
            "docs/how-to.md",
            "docs/page.md",
            "docs/channels.md",
            "docs/views.md",
            "docs/repair.md",
            "docs/models.md",
            "docs/mcp.md",
            "docs/embedding.md",
            "docs/extensions.md",
            "docs/troubleshooting.md",
        ),
    ),
    ("Connectors", ("docs/connectors.md", "docs/google.md", "docs/writing-connectors.md")),
    (
        "Writing workflows",
        ("docs/writing-workflows.md", "docs/testing.md", "examples/README.md"),
    ),
    ("Operations", ("docs/deployment.md", "docs/operations.md", "docs/postgresql.md")),
    ("Security", ("SECURITY.md", "docs/sandbox.md", "docs/guarantees.md")),
    (
        "Architecture",
        (
            "docs/architecture.md",
            "docs/rules.md",
            "docs/lifecycle.md",
            "docs/event-bus.md",
            "docs/mutants.md",
            "bench/README.md",
            "bench/crash_window/README.md",
            "CONTRIBUTING.md",
        ),
    ),
    (
        "Reference",
        (
            VERBS,
            "docs/command-line.md",
            "docs/settings.md",
            "docs/errors.md",
            "docs/reference.md",
            "docs/http.md",
            "docs/control.md",
            "docs/views-sql.md",
            "docs/glossary.md",
            "CHANGELOG.md",
        ),
    ),
    ("Decisions", (DECISIONS,)),
)
