"""What posts to webhooks were refused since this host started, so that a person sees it (G12).

Law 1  It is kept in memory alone: a stranger who posts makes nothing grow on the disk.
Law 2  An open webhook is always counted. Of other names there are at most `NAMES_MAX`: they come
       from strangers too.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from duly.rules.webhook import HookFault

NAMES_MAX: Final = 1000
NAME_CHARS_MAX: Final = 500  # a longer name is none of a workflow and a topic


@dataclass(frozen=True, slots=True)
class RefusedPosts:
    """How many posts to one webhook were refused; the reason is that of the last."""

    count: int
    first_at_ms: int
    last_at_ms: int
    why: HookFault


@dataclass(slots=True)
class Refusals:
    """The refused posts of one host, by the name of the webhook's secret."""

    by_name: dict[str, RefusedPosts] = field(default_factory=dict)

    def note(
        self, name: str, why: HookFault, now_ms: int, *, is_open: bool, posts: int = 1
    ) -> None:
        """Count posts that were refused (law 2)."""
        before = self.by_name.get(name)
        if before is not None:
            count = before.count + posts
            self.by_name[name] = replace(before, count=count, last_at_ms=now_ms, why=why)
        elif is_open or (len(self.by_name) < NAMES_MAX and len(name) <= NAME_CHARS_MAX):
            self.by_name[name] = RefusedPosts(posts, now_ms, now_ms, why)
