"""GitHub: what is opened and written is found by its mark, and a text is never more than a text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duly.connectors.base import Applied, NotApplied, Unsure
from duly.connectors.github import Github
from duly.connectors.github_text import write_plain
from duly.errors import AuthNeeded, PermissionDenied, Refused, Transient, UnknownOutcome
from duly.testing.doubles.base import Mishap, PlannedMishap
from duly.testing.doubles.github import REPO, GithubDouble
from tests.connectors.service_exam import TOKEN, happened, reach, send, take_exam

pytestmark = pytest.mark.anyio

ISSUE: dict[str, Any] = {"repo": REPO, "title": "Tea", "text": "@ada, see #1"}


class Desk(GithubDouble):
    """A repository with two issues."""

    def new_account(self) -> dict[str, Any]:
        made = super().new_account()
        for title in ("One", "Two"):
            self._put(made, title, "2026-01-01T00:00:00Z")
        return made


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    with Desk() as made:
        yield made


@pytest.fixture
def github(desk: Desk) -> Any:
    desk.accounts.clear()
    desk.mishaps.clear()
    desk.give_token(TOKEN)
    return reach(desk, Github)


@pytest.mark.parametrize(
    ("tool", "args", "other"),
    [
        ("create_issue", {**ISSUE, "labels": ["bug"]}, {}),
        ("comment", {"repo": REPO, "number": 1, "text": "Hello"}, {}),
        ("add_label", {"repo": REPO, "number": 1, "label": "bug"}, {"number": 2}),
        ("create_pull", {**ISSUE, "head": "fix", "base": "main"}, {"head": "ada:fix2"}),
        ("create_release", {**ISSUE, "tag": "v1"}, {"tag": "v2"}),
    ],
)
def test_a_change_passes_the_exam_for_the_network(
    desk: Desk,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tool: str,
    args: dict[str, Any],
    other: dict[str, Any],
) -> None:
    """L4, L5, K2: cut, lost, silent, senseless, and every status."""
    desk.accounts.clear()
    report = take_exam(desk, Github, tool, args, tmp_path, monkeypatch, other=other)
    assert "it said unknown, it was done, reconcile said Applied" in str(report)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("@ada/team", "@<!-- -->ada/team"),
        ("fixes #12 and GH-7", r"fixes #<!-- -->12 and GH<!-- -->\-7"),
        ("# a\n- b\n1. c", "#<!-- --> a\n\\- b\n1\\. c"),
        ("    code", "&nbsp;&nbsp;&nbsp;&nbsp;code"),
        ("<img src=x> & <!-- x", r"&lt;img src\=x&gt; &amp; &lt;\!\-\- x"),
        ("[a](b) *c* `d` :tea: a:b", r"\[a\]\(b\) \*c\* \`d\` :<!-- -->tea: a:b"),
        ("see https://a.b/c_d?e=1&f=2.", "see <https://a.b/c_d?e=1&f=2.>"),
        ("x\x00<!-- -->@ada", r"x&lt;\!\-\- \-\-&gt;@<!-- -->ada"),
    ],
)
def test_a_text_stays_a_text(text: str, written: str) -> None:
    """K12: no mention, no reference, no mark-up, and no mark of another call."""
    assert write_plain(text) == written


async def test_the_mark_is_at_the_end(desk: Desk, github: Any) -> None:
    """K1: where no reader sees it."""
    made = await send(github, "create_issue", **ISSUE)
    issue = desk.account(TOKEN)["issues"][-1]
    assert made == {"number": 3, "url": issue["html_url"]}
    assert issue["body"] == "@<!-- -->ada, see #<!-- -->1\n\n<!-- duly:k1 -->"
    assert await happened(github, "create_issue", **ISSUE) == Applied(made)
    empty = {**ISSUE, "text": ""}
    await send(github, "create_issue", "k2", **empty)
    assert desk.account(TOKEN)["issues"][-1]["body"] == "<!-- duly:k2 -->"


async def test_the_call_is_found_on_a_later_page(
    desk: Desk, github: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L5: GitHub names the next page by the number of the repository."""
    monkeypatch.setattr(desk, "page_max", 3)
    await send(github, "create_issue", **ISSUE)
    for number in range(8):
        desk.open(TOKEN, f"Other {number}")
    assert isinstance(await happened(github, "create_issue", **ISSUE), Applied)
    assert await happened(github, "create_issue", "k2", **ISSUE) == NotApplied()


async def test_a_label_that_was_taken_away_is_left_to_a_person(desk: Desk, github: Any) -> None:
    """L5: it is not put there again."""
    args: dict[str, Any] = {"repo": REPO, "number": 1, "label": "bug"}
    assert await happened(github, "add_label", **args) == NotApplied()
    await send(github, "add_label", **args)
    assert await happened(github, "add_label", **args) == Applied()
    desk.account(TOKEN)["issues"][0]["labels"].clear()
    assert isinstance(await happened(github, "add_label", **args), Unsure)


async def test_a_tag_with_another_release_is_left_to_a_person(github: Any) -> None:
    args = {"repo": REPO, "tag": "v1", "title": "One"}
    await send(github, "create_release", "k2", **args)
    assert isinstance(await happened(github, "create_release", **args), Unsure)
    with pytest.raises(Refused, match="already_exists"):
        await send(github, "create_release", **args)


@pytest.mark.parametrize(
    ("plan", "error", "wait_s"),
    [
        (
            {"status": 403, "body": {"message": "You have exceeded a secondary rate limit"}},
            None,
            60,
        ),
        ({"status": 429, "headers": {"Retry-After": "9"}}, None, 9),
        ({"status": 403, "headers": {"X-RateLimit-Remaining": "0"}}, None, None),
        ({"status": 403}, PermissionDenied, None),
        ({"status": 401}, AuthNeeded, None),
        ({"status": 502}, UnknownOutcome, None),
        ({"status": 201, "body": {"id": 1}}, UnknownOutcome, None),
    ],
)
async def test_a_status_is_understood(
    desk: Desk, github: Any, plan: dict[str, Any], error: Any, wait_s: float | None
) -> None:
    """K8, L4: also the limit that GitHub says in words alone."""
    desk.plan(PlannedMishap(Mishap.STATUS, **plan))
    with pytest.raises(error or Transient) as caught:
        await send(github, "create_issue", **ISSUE)
    if error is None:
        assert (caught.value.retry_after_s, caught.value.outcome) == (wait_s, "refused")


async def test_what_github_would_refuse_is_refused(desk: Desk, github: Any) -> None:
    before = len(desk.asks)
    for tool, args in (
        ("create_issue", {**ISSUE, "repo": "ada"}),
        ("create_issue", {**ISSUE, "repo": "ada/.."}),
        ("create_issue", {**ISSUE, "title": "x" * 257}),
        ("create_issue", {**ISSUE, "text": "x" * 65_500}),
        ("create_issue", {**ISSUE, "labels": ["x" * 51]}),
        ("comment", {"repo": REPO, "number": 0, "text": "x"}),
        ("comment", {"repo": REPO, "number": 1, "text": " "}),
        ("create_pull", {**ISSUE, "head": "a b", "base": "main"}),
        ("create_release", {**ISSUE, "tag": "a b"}),
    ):
        with pytest.raises(Refused):
            await send(github, tool, **args)
    assert len(desk.asks) == before
    with pytest.raises(Refused, match="404"):
        await send(github, "comment", repo=REPO, number=99, text="x")
    await send(github, "create_pull", "a", **ISSUE, head="fix", base="main")
    with pytest.raises(UnknownOutcome, match="already exists"):  # it is asked by a search
        await send(github, "create_pull", "b", **ISSUE, head="fix", base="main")
    desk.give_token("reader", ("issues:read",))
    with pytest.raises(PermissionDenied):
        await send(reach(desk, Github, "reader"), "create_issue", **ISSUE)


async def test_no_issue_is_missed(desk: Desk, github: Any) -> None:
    """K11: changed while it is read, and more of one second than a page has."""
    for number in range(230):
        desk.open(TOKEN, f"Same {number}", "2026-02-01T00:00:00Z")
    seen: set[int] = set()
    after, has_more = None, True
    while has_more:
        page = await github.issues(REPO, after=after)
        seen |= {each["number"] for each in page.items}
        after, has_more = page.names["last_cursor"], page.names["has_more"]
    assert seen == set(range(1, 233))
    desk.account(TOKEN)["issues"][4]["updated_at"] = "2026-03-01T00:00:00Z"
    newer = (await github.issues(REPO, after="2026-02-02T00:00:00Z")).items
    assert [each["number"] for each in newer] == [5]
    with pytest.raises(Refused, match="no cursor"):
        await github.issues(REPO, after="../x")


async def test_a_comment_is_counted_and_moves_its_issue(desk: Desk, github: Any) -> None:
    """K11: a list by the time of change shows an issue again that was commented on."""
    before = await github.issue(REPO, 1)
    await send(github, "comment", repo=REPO, number=1, text="Tea?")
    after = await github.issue(REPO, 1)
    assert after["comments"] == before["comments"] + 1
    assert after["updated_at"] > before["updated_at"]


async def test_no_comment_is_missed(desk: Desk, github: Any) -> None:
    """K11: more of one second than a page has, and what was changed since."""
    for number in range(250):
        at = f"2026-02-0{1 + number // 120}T00:00:00Z"
        desk._write(desk.account(TOKEN), 1, f"c{number}", at)
    seen: list[int] = []
    after, has_more = None, True
    while has_more:
        page = await github.comments(REPO, 1, after=after)
        seen += [each["id"] for each in page.items]
        after, has_more = page.names["last_cursor"], page.names["has_more"]
    assert {*seen} == set(range(1, 251))
    assert len(seen) < 600


async def test_lists_have_the_shapes_they_promise(desk: Desk, github: Any) -> None:
    await send(github, "comment", repo=REPO, number=1, text="Hello")
    await send(github, "create_pull", "p", **ISSUE, head="fix", base="main")
    await send(github, "create_release", "r", repo=REPO, tag="v1", title="One")
    (comment,) = (await github.comments(REPO, 1)).items
    assert (comment["id"], comment["user"]) == (1, "ada")
    (pull,) = (await github.pulls(REPO)).items
    assert (pull["number"], pull["head"], pull["base"], pull["is_merged"]) == (
        3,
        "fix",
        "main",
        False,
    )
    (release,) = (await github.releases(REPO)).items
    assert (release["tag"], release["name"]) == ("v1", "One")
    (found,) = (await github.search("is:open Two")).items
    assert (found["number"], found["is_pull"]) == (2, False)
    assert (await github.issue(REPO, 3))["is_pull"] is True
    assert await github.issue(REPO, 99) is None


@pytest.mark.parametrize("is_moved", [False, True])
async def test_an_issue_that_a_person_took_away_is_left_to_a_person(
    desk: Desk, github: Any, *, is_moved: bool
) -> None:
    """L6: GitHub tells a number that is gone from one that was never given."""
    made = await send(github, "create_issue", **ISSUE)
    desk.take_away(TOKEN, made["number"], is_moved=is_moved)
    verdict = await happened(github, "create_issue", **ISSUE)
    assert isinstance(verdict, Unsure)
    assert f"issue {made['number']}" in verdict.reason
    # Also below others that came later.
    desk.open(TOKEN, "Later")
    assert isinstance(await happened(github, "create_issue", **ISSUE), Unsure)
    # One that was taken away long before says nothing.
    desk.accounts.clear()
    desk.take_away(TOKEN, 1, is_moved=is_moved)
    assert await happened(github, "create_issue", **ISSUE) == NotApplied()
