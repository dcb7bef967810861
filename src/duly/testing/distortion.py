"""Ways in which an honest service shows something else than what there is; a double shows them.

    with lagging(double):                       # what was changed last is not yet shown
    with rewritten(double, {"duly_key": "x"}):  # a person or the service wrote something else
    with crowded(double, 2):                    # two things on a page

Law: only what the double shows is distorted. What was done, and how much of it, stays as it is.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from duly.testing.doubles.base import Rejected, ServiceAsk, ServiceDouble, ServiceReply

READS: Final = re.compile(r"(GET|HEAD) .*|POST .*(/query|/graphql)")
# One begins a file by a GET, and GraphQL changes things where it is asked.
NO_READ: Final = re.compile(r".*/files\.getUploadURLExternal")
MUTATION: Final = re.compile(rb'"query"\s*:\s*"\s*mutation')

Answering = Callable[[ServiceAsk], ServiceReply]


@contextmanager
def lagging(double: ServiceDouble) -> Iterator[None]:
    """Let reads show each account as it was before its last change."""
    old: dict[str, dict[str, Any]] = {}

    def answer(ask: ServiceAsk, go_on: Answering) -> ServiceReply:
        try:
            name = double.account_of(ask.token)
        except Rejected:
            return go_on(ask)
        now = double.account(name)
        if _is_read(ask):
            double.accounts[name] = copy.deepcopy(old.get(name, now))
            try:
                return go_on(ask)
            finally:
                double.accounts[name] = now
        before, count = copy.deepcopy(now), double.effects(now)
        try:
            return go_on(ask)
        finally:
            if double.effects(now) != count:
                old[name] = before

    with _answering(double, answer):
        yield


@contextmanager
def rewritten(double: ServiceDouble, words: Mapping[str, str]) -> Iterator[None]:
    """Let reads show other words in place of these, wherever they stand."""

    def answer(ask: ServiceAsk, go_on: Answering) -> ServiceReply:
        reply = go_on(ask)
        if isinstance(reply.body, bytes) or not _is_read(ask):
            return reply
        shown = json.dumps(reply.body)
        for word, other in words.items():
            shown = shown.replace(json.dumps(word)[1:-1], json.dumps(other)[1:-1])
        return replace(reply, body=json.loads(shown))

    with _answering(double, answer):
        yield


@contextmanager
def crowded(double: ServiceDouble, size: int) -> Iterator[None]:
    """Let a page of a list have at most so many things, of a double that has pages."""
    paged: Any = double
    before = paged.page_max
    paged.page_max = size
    try:
        yield
    finally:
        paged.page_max = before


@contextmanager
def _answering(
    double: ServiceDouble, answer: Callable[[ServiceAsk, Answering], ServiceReply]
) -> Iterator[None]:
    go_on = double.answer
    changed: Any = double
    changed.answer = lambda ask: answer(ask, go_on)
    try:
        yield
    finally:
        del changed.answer


def _is_read(ask: ServiceAsk) -> bool:
    is_read = READS.fullmatch(f"{ask.method} {ask.path}") is not None
    return is_read and not NO_READ.fullmatch(ask.path) and not MUTATION.search(ask.body)
