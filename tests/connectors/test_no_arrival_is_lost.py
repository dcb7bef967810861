"""No list loses what is added or removed between two looks: every read with a cursor (K11)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib import import_module
from inspect import getattr_static, signature
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from duly.api.build import CONNECTORS
from duly.connectors.base import Read
from duly.connectors.github import Github
from duly.connectors.slack import Slack
from duly.connectors.stripe import Stripe
from duly.testing.doubles import github as github_double
from duly.testing.doubles import slack as slack_double
from duly.testing.doubles.declared import DeclaredDesk
from duly.testing.doubles.github import GithubDouble
from duly.testing.doubles.slack import SlackDouble
from duly.testing.doubles.stripe import StripeDouble
from tests.connectors.google_stand import BOOK, COLUMNS, TOKENS, StockedGoogle, make, secrets_of
from tests.connectors.service_exam import TOKEN, reach
from tests.connectors.test_declared import reach as reach_declared

pytestmark = pytest.mark.anyio

BURST = 130  # more than any page
SINCE = "2026-01-01T00:00:00Z"
TIMES = {"start": {"date": "2026-05-01"}, "end": {"date": "2026-05-02"}}
# Reads whose walk stands elsewhere, with their own kind of place: files, mails, tables, rows.
ELSEWHERE = {
    "airtable.rows": "test_airtable.py::test_no_row_is_missed",
    "documents.csv_rows": "test_documents.py::test_a_long_table_comes_in_pages",
    "feed.items": "test_feed.py::test_every_entry_is_returned_once",
    "files.search": "test_every_arrival.py::test_no_walk_loses_an_arrival",
    "gmail.search": "test_google.py::test_a_search_returns_each_mail_that_came",
    "mail.search": "test_mail_account.py::test_a_page_that_is_full_goes_on_behind_its_last_mail",
    "mailbox.search": "test_every_arrival.py::test_no_mail_is_lost_in_a_mailbox",
    "notion.query": "test_notion.py::test_no_page_is_missed",
    "s3.list": "test_s3.py::test_a_list_goes_on_behind_its_last_key",
    "table.rows": "test_table.py::test_a_row_that_comes_after_others_were_taken_away",
    "telegram.updates": "test_telegram.py::test_numbers_that_begin_elsewhere_after",
}


@dataclass
class Place:
    """Where things come and go, and the read that lists them."""

    read: Callable[[str | None], Awaitable[Any]]
    add: Callable[[int], None]  # one thing of this number
    remove: Callable[[], None] | None  # the oldest one that is there
    there: Callable[[], set[str]]
    id_of: Callable[[Any], str] = lambda item: str(item["id"])
    seen: set[str] = field(default_factory=set)

    async def look(self, after: str | None) -> str | None:
        """Read to the end; return the cursor to keep."""
        for _ in range(50):
            page = await self.read(after)
            self.seen |= {self.id_of(each) for each in page.items}
            after = page.names["last_cursor"]
            if not page.names["has_more"]:
                return after
        raise AssertionError("the list does not end")


class Stands(ExitStack):
    """The places of every read, each made when it is asked for."""

    def of(self, tool: str) -> Place:
        """Return the place of a read."""
        return getattr(self, tool.replace(".", "_"))()  # type: ignore[no-any-return]

    def _google(self, kind: str) -> tuple[Any, dict[str, Any], StockedGoogle, str]:
        double = self.enter_context(StockedGoogle())
        double.give_tokens(TOKENS)
        token = f"{TOKENS}-lost"
        return make(kind, double, secrets_of(token)), double.account(token), double, token

    def sheets_read(self) -> Place:
        sheet, account, _, _ = self._google("sheets")
        rows = account["books"][BOOK]["Bills"]
        rows[:] = [[*COLUMNS]]
        return Place(
            sheet.read,
            lambda number: rows.append([f"c{number}", number, False, ""]),
            lambda: rows.pop(1),
            lambda: {each[0] for each in rows[1:]},
            lambda item: str(item["cells"][COLUMNS[0]]),
        )

    def drive_list(self) -> Place:
        drive, account, double, token = self._google("drive")
        files = account["files"]
        return Place(
            lambda after: drive.list(after=after),
            lambda number: void(double.put_file(token, f"f{number}", b"x")),
            lambda: files.pop(next(iter(files))),
            lambda: {*files},
        )

    def google_calendar_list(self) -> Place:
        calendar, account, _, _ = self._google("google_calendar")
        events = account["events"]
        events.clear()

        def add(number: int) -> None:
            own = f"event{number:04}"
            made = {"id": own, "summary": own, "status": "confirmed", "etag": '"1"', **TIMES}
            events["primary", own] = made

        return Place(
            lambda after: calendar.list("2026-04-01", "2026-06-01", after),
            add,
            lambda: events.pop(next(iter(events))),
            lambda: {own for _, own in events},
        )

    def _github(self) -> tuple[Any, dict[str, Any], Any]:
        double = self.enter_context(GithubDouble())
        double.give_token(TOKEN)
        return reach(double, Github), double.account(TOKEN), double

    def _issues(self, read: Any, *, is_pull: bool = False) -> Place:
        github, account, double = self._github()
        issues = account["issues"]

        def add(number: int) -> None:
            made = double._put(account, "tea", github_double.now())
            if is_pull:
                made |= {"head": {"ref": f"b{number}"}, "base": {"ref": "main"}}
                made |= {"pull_request": {}, "draft": False, "merged_at": None}

        def remove() -> None:
            first = next(each for each in issues if is_open(each))
            first |= {"state": "closed", "title": "coffee"}

        def is_open(each: Any) -> bool:
            return bool(each["state"] == "open")

        return Place(
            lambda after: read(github, after),
            add,
            remove,
            lambda: {str(each["number"]) for each in issues if is_open(each)},
            lambda item: str(item["number"]),
        )

    def github_issues(self) -> Place:
        return self._issues(lambda github, after: github.issues(github_double.REPO, after=after))

    def github_search(self) -> Place:
        return self._issues(lambda github, after: github.search("tea", after))

    def github_pulls(self) -> Place:
        return self._issues(
            lambda github, after: github.pulls(github_double.REPO, after=after), is_pull=True
        )

    def github_comments(self) -> Place:
        github, account, double = self._github()
        double._put(account, "tea", github_double.now())
        kept, number = account["comments"], count(1)

        def add(_: int) -> None:
            double._write(account, 1, "x", github_double.now())["id"] = next(number)

        return Place(
            lambda after: github.comments(github_double.REPO, 1, after),
            add,
            lambda: kept.pop(0),
            lambda: {str(each["id"]) for each in kept},
        )

    def github_releases(self) -> Place:
        github, account, _ = self._github()
        kept = account["releases"]

        def add(number: int) -> None:
            made = {"id": number + 1, "tag_name": f"v{number}", "name": "x", "body": ""}
            more = {"draft": False, "published_at": github_double.now(), "html_url": "https://x"}
            kept.append({**made, **more})

        return Place(
            lambda after: github.releases(github_double.REPO, after),
            add,
            lambda: kept.pop(0),
            lambda: {str(each["id"]) for each in kept},
        )

    def _slack(self) -> tuple[Any, dict[str, Any], Any]:
        double = self.enter_context(SlackDouble())
        double.give_token(TOKEN)
        return reach(double, Slack), double.account(TOKEN), double

    def slack_history(self) -> Place:
        slack, account, double = self._slack()
        kept = account["messages"]
        return Place(
            lambda after: slack.history(slack_double.CHANNEL, after),
            lambda number: void(double._put(account, {"text": str(number), "user": "U1"})),
            lambda: kept.pop(0),
            lambda: {each["ts"] for each in kept},
        )

    def slack_channels(self) -> Place:
        slack, account, _ = self._slack()
        kept = account["channels"]
        kept.clear()

        def add(number: int) -> None:
            # Where a name puts it: among those that were listed before.
            made = {"id": f"C{number}", "name": f"n{number}", "topic": {"value": ""}}
            kept.insert(number % 7 if kept else 0, {**made, "is_member": True})

        return Place(
            slack.channels, add, lambda: kept.pop(0), lambda: {each["id"] for each in kept}
        )

    def slack_files(self) -> Place:
        slack, account, _ = self._slack()
        kept = account["files"]

        def add(number: int) -> None:
            made = {"id": f"F{number}", "name": "x", "mimetype": "text/plain", "size": 1}
            kept.append({**made, "user": "U1"})

        return Place(
            lambda after: slack.files(slack_double.CHANNEL, after),
            add,
            lambda: kept.pop(0),
            lambda: {each["id"] for each in kept},
        )

    def stripe_list(self) -> Place:
        double = self.enter_context(StripeDouble())
        double.give_token(TOKEN)
        kept = double.account(TOKEN)["charges"]
        stripe = reach(double, Stripe)

        def add(number: int) -> None:
            kept.append({"id": f"ch_{number:04}", "object": "charge", "created": 1_700_000_000})

        return Place(  # a charge is never removed
            lambda after: stripe.list("charges", after),
            add,
            None,
            lambda: {each["id"] for each in kept},
        )

    def _declared(self, service: str, read: Any, item: Callable[[int], dict[str, Any]]) -> Place:
        double = self.enter_context(DeclaredDesk())
        double.give_token(TOKEN)
        connector = reach_declared(double, service)
        kept = double.account(TOKEN)["made"]
        return Place(
            lambda after: read(connector, after),
            lambda number: kept.append({"id": f"n{number}", **item(number)}),
            lambda: kept.pop(0),
            lambda: {each["id"] for each in kept},
        )

    def hubspot_contacts(self) -> Place:
        return self._declared(
            "hubspot",
            lambda hubspot, after: hubspot.contacts(after=after),
            lambda number: {"properties": {"email": f"{number}@example.com"}},
        )

    def jira_search(self) -> Place:
        return self._declared(
            "jira",
            lambda jira, after: jira.search(jql="labels = x", after=after),
            lambda number: {"key": f"T-{number}", "fields": {"labels": ["x"]}},
        )

    def todoist_tasks(self) -> Place:
        return self._declared(
            "todoist",
            lambda todoist, after: todoist.tasks(after=after),
            lambda number: {"content": f"Tea {number}"},
        )

    def outlook_messages(self) -> Place:
        double = self.enter_context(DeclaredDesk())
        double.give_token(TOKEN)
        connector = reach_declared(double, "outlook")
        kept = double.account(TOKEN)["inbox"]
        return Place(
            lambda after: connector.messages(received_after=SINCE, after=after),
            lambda number: void(double.put_mail(TOKEN, f"Mail {number}")),
            lambda: kept.pop(0),
            lambda: {each["id"] for each in kept},
        )


def void(_: object) -> None:
    """Drop what a call returned."""


def reads_with_a_cursor() -> set[str]:
    """List every read of a connector of Duly that takes `after`."""
    from tests.connectors.test_declared import KINDS, MORE

    found = set()
    for name, place in CONNECTORS.items():
        module, _, kind = place.partition(":")
        made: Any = getattr(import_module(module), kind)
        if name in KINDS:
            made = type(KINDS[name](**MORE.get(name, {})))
        for method in dir(made):
            tool = getattr_static(made, method)
            if isinstance(tool, Read) and "after" in signature(tool.function).parameters:
                found.add(f"{name}.{method}")
    return found


WALKED = sorted(
    name.replace("_", ".", 1) if not name.startswith("google_") else "google_calendar.list"
    for name in vars(Stands)
    if not name.startswith("_") and name != "of"
)


@pytest.fixture
def stands() -> Iterator[Stands]:
    with Stands() as made:
        yield made


@pytest.mark.parametrize("tool", WALKED)
async def test_what_is_added_or_removed_between_two_looks_is_not_lost(
    stands: Stands, tool: str
) -> None:
    """K11: an empty first look, a burst, removals of the oldest, and something new after each."""
    place, number = stands.of(tool), count()

    def add(times: int) -> None:
        for _ in range(times):
            place.add(next(number))

    after = await place.look(None)
    assert not place.seen
    for removed, added in ((0, BURST), (1, 1), (0, 1), (40, 20), (60, BURST), (3, 3), (1, 0)):
        for _ in range(removed if place.remove is not None else 0):
            assert place.remove is not None
            place.remove()
        add(added)
        after = await place.look(after)
        assert place.there() <= place.seen, (tool, removed, added, len(place.there() - place.seen))


def test_every_read_with_a_cursor_is_walked() -> None:
    """K11: a new one needs a walk here, or names the test that walks it."""
    found = reads_with_a_cursor()
    assert found == {*WALKED, *ELSEWHERE}
    here = Path(__file__).parent
    for place in ELSEWHERE.values():
        file, _, name = place.partition("::")
        assert name
        assert f"def {name}" in (here / file).read_text()
