"""Texts of GitHub: written so that nothing in them is read as Markdown, and the shapes of things.

Law 1: a text comes out as it was given. No `@name` tells a person, no `#12` and no `GH-12` refers
       to an issue, no mark-up formats (K12). An address of the web is a link, as it is everywhere.
Law 2: the mark of a call is a comment of HTML, which no reader sees.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypedDict

from duly.connectors.json_answer import pick
from duly.connectors.token_service import number_at, text_at, texts_at
from duly.errors import Refused

MARK: Final = "<!-- duly:{key} -->"
BODY_CHARS_MAX: Final = 65_536  # with the mark, as it is sent
MARK_CHARS: Final = 100
TITLE_CHARS_MAX: Final = 256
BREAK: Final = "<!-- -->"  # between two characters: they are no longer one word to GitHub
REPO: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9._-]{1,100}")
WEB: Final = re.compile(r"https?://[^\s<>`\"'\\]+")
ESCAPED: Final = frozenset("\\`*_{}[]()+-.!|~=$^")
REPLACED: Final[Mapping[str, str]] = MappingProxyType(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": f"@{BREAK}", "#": f"#{BREAK}"}
)
REFERENCE: Final = re.compile(r"\b(GH)(-[0-9])", re.IGNORECASE)
EMOJI: Final = re.compile(r":(?=[A-Za-z0-9_+-]{1,50}:)")
INDENT: Final = re.compile(r"^[ \t]+", re.MULTILINE)
HOLE: Final = "\x00"  # where a break goes; no text of JSON that a script sends has it


class GithubIssue(TypedDict):
    """An issue, or a pull request where a list has both."""

    number: int
    title: str
    text: str
    state: str
    user: str
    labels: list[str]
    comments: int
    is_pull: bool
    created_at: str
    updated_at: str
    url: str


class GithubComment(TypedDict):
    """A comment of an issue or a pull request."""

    id: int
    user: str
    text: str
    created_at: str
    updated_at: str
    url: str


class GithubPull(TypedDict):
    """A pull request."""

    number: int
    title: str
    text: str
    state: str
    user: str
    head: str
    base: str
    is_draft: bool
    is_merged: bool
    created_at: str
    url: str


class GithubRelease(TypedDict):
    """A release."""

    id: int
    tag: str
    name: str
    text: str
    is_draft: bool
    published_at: str
    url: str


class GithubMade(TypedDict):
    """What a change made: its number or id, and where it is seen."""

    number: int
    url: str


def write_plain(text: str) -> str:
    """Write a text in Markdown that shows exactly this text (law 1)."""
    parts: list[str] = []
    last = 0
    for found in WEB.finditer(text):
        parts += [_escape(text[last : found.start()]), f"<{found[0]}>"]
        last = found.end()
    return "".join((*parts, _escape(text[last:])))


def _escape(text: str) -> str:
    text = text.replace(HOLE, "")
    text = EMOJI.sub(f":{HOLE}", REFERENCE.sub(rf"\1{HOLE}\2", text))
    made = "".join(
        REPLACED.get(each) or (f"\\{each}" if each in ESCAPED else each) for each in text
    )
    return INDENT.sub(_indent, made.replace(HOLE, BREAK))


def _spell(character: str) -> str:
    escaped = f"\\{character}" if character in ESCAPED else character
    return REPLACED.get(character, escaped)


def _indent(found: re.Match[str]) -> str:
    return "".join("&nbsp;" * (4 if each == "\t" else 1) for each in found[0])


def body_of(text: str) -> str:
    """Return a body without its mark; with it, it must fit."""
    made = write_plain(text)
    if len(made) > BODY_CHARS_MAX - MARK_CHARS:
        raise Refused(f"text: it has more than {BODY_CHARS_MAX - MARK_CHARS:,} characters.")
    return made


def title_of(title: str) -> str:
    """Return a title that GitHub takes."""
    if not title.strip() or len(title) > TITLE_CHARS_MAX or "\n" in title:
        raise Refused(f"title: write one line of 1 to {TITLE_CHARS_MAX} characters.")
    return title


def repo_path(repo: str) -> str:
    """Return the path of a repository."""
    if not REPO.fullmatch(repo) or repo.partition("/")[2] in (".", ".."):
        raise Refused(f"repo: {repo[:100]!r} is no repository. Write owner/name.")
    return f"/repos/{repo}"


def issue_of(each: Any) -> GithubIssue:
    """Return an issue as scripts see it."""
    return {
        "number": number_at(each, "number"),
        "title": text_at(each, "title"),
        "text": text_at(each, "body"),
        "state": text_at(each, "state"),
        "user": text_at(each, "user.login"),
        "labels": texts_at(each, "labels", "name"),
        "comments": number_at(each, "comments"),
        "is_pull": isinstance(pick(each, "pull_request"), dict),
        "created_at": text_at(each, "created_at"),
        "updated_at": text_at(each, "updated_at"),
        "url": text_at(each, "html_url"),
    }


def comment_of(each: Any) -> GithubComment:
    """Return a comment as scripts see it."""
    return {
        "id": number_at(each, "id"),
        "user": text_at(each, "user.login"),
        "text": text_at(each, "body"),
        "created_at": text_at(each, "created_at"),
        "updated_at": text_at(each, "updated_at"),
        "url": text_at(each, "html_url"),
    }


def pull_of(each: Any) -> GithubPull:
    """Return a pull request as scripts see it."""
    return {
        "number": number_at(each, "number"),
        "title": text_at(each, "title"),
        "text": text_at(each, "body"),
        "state": text_at(each, "state"),
        "user": text_at(each, "user.login"),
        "head": text_at(each, "head.ref"),
        "base": text_at(each, "base.ref"),
        "is_draft": pick(each, "draft") is True,
        "is_merged": bool(text_at(each, "merged_at")),
        "created_at": text_at(each, "created_at"),
        "url": text_at(each, "html_url"),
    }


def release_of(each: Any) -> GithubRelease:
    """Return a release as scripts see it."""
    return {
        "id": number_at(each, "id"),
        "tag": text_at(each, "tag_name"),
        "name": text_at(each, "name"),
        "text": text_at(each, "body"),
        "is_draft": pick(each, "draft") is True,
        "published_at": text_at(each, "published_at"),
        "url": text_at(each, "html_url"),
    }
