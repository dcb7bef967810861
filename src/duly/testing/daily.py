"""The examples of daily life: each with doubles of its services on loopback, and a few inputs.

    with DailyWorld(DAILY["mail-triage"]) as world:
        settings, secrets = world.settings(), world.secrets()

Law 1: the source of an example is a file of `examples/`; the text in the package is a copy of it,
       and a test compares the two.
Law 2: nothing is reached but the doubles. What was made is read there, past everything of ours.
Law 3: an example has its inputs before its host starts, so that it ends when nothing more is due.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from importlib.resources import files
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self

from duly.rules.oauth import TokenGrant
from duly.rules.schedule import moment
from duly.rules.source import Language, Source
from duly.rules.value import Json
from duly.testing.doubles.airtable import BASE, AirtableDouble
from duly.testing.doubles.base import HOST, ServiceDouble
from duly.testing.doubles.declared import DeclaredDesk, secret_line
from duly.testing.doubles.feed import PATH, FeedDouble
from duly.testing.doubles.github import GithubDouble
from duly.testing.doubles.google import CLIENT, CLIENT_SECRET, GoogleDouble
from duly.testing.doubles.moment import wall_ms
from duly.testing.doubles.notion import NotionDouble
from duly.testing.doubles.slack import SlackDouble
from duly.testing.doubles.stripe import StripeDouble
from duly.testing.doubles.telegram import TelegramDouble

ACCOUNT: Final = "ada"
ADDRESS: Final = "Ada <ada@example.com>"
TOKEN: Final = "123456:" + "AbC_-" * 7  # in the form that Telegram wants; the others take any
BOOK: Final = "1abcdefghijklmnop"
SUFFIXES: Final = MappingProxyType({Language.PYTHON: ".py", Language.JAVASCRIPT: ".js"})
BOTH: Final = (Language.PYTHON, Language.JAVASCRIPT)
HOUR_MS: Final = 3_600_000

Tables = Mapping[str, Mapping[str, Json]]


@dataclass(frozen=True, slots=True)
class MadeThing:
    """Something that a service has now and had not before: where, what it is, and how it reads."""

    service: str
    noun: str
    text: str


Look = Callable[[dict[str, Any]], list[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class DailyService:
    """A kind of connector: its double, its settings, and how to look at what the double has."""

    title: str
    double: type[ServiceDouble]
    look: Look
    settings: Mapping[str, Json] = field(default_factory=dict)
    path: str = ""  # behind the address of the double
    is_signed_in: bool = False  # at Google; the others have a token


@dataclass(frozen=True, slots=True)
class DailyExample:
    """One workflow in both languages: its services by the kind of connector, and its inputs."""

    name: str
    services: tuple[str, ...]
    fill: Callable[[DailyWorld], None]
    events: tuple[Mapping[str, Json], ...] = ()  # that come from outside

    @property
    def stem(self) -> str:
        """The name of its file, without the ending."""
        return self.name.replace("-", "_")

    def source(self, language: Language) -> Source:
        """Read its source."""
        file = f"{self.stem}{SUFFIXES[language]}"
        text = files("duly.testing").joinpath("text", f"{file}.txt").read_text("utf-8")
        return Source(language, text, file)

    @property
    def says(self) -> str:
        """What it does: the first line of its source, behind its name."""
        line = self.source(BOTH[0]).text.partition("\n")[0]
        words = line.strip('/" ').partition(": ")[2]
        return words[:1].upper() + words[1:]


class DailyWorld:
    """The doubles of one example, with its inputs in them."""

    def __init__(self, example: DailyExample) -> None:
        self.example = example
        self.doubles: dict[type[ServiceDouble], ServiceDouble] = {}
        self._open = ExitStack()
        self._before: Counter[MadeThing] = Counter()
        self._changes_before = 0

    def __enter__(self) -> Self:
        """Start the doubles, and let the inputs come."""
        for name in self.example.services:
            kind = SERVICES[name].double
            if kind not in self.doubles:
                made = self.doubles[kind] = self._open.enter_context(kind())
                made.give_token(TOKEN, account=ACCOUNT)
        self.example.fill(self)
        self._before, self._changes_before = Counter(self._look()), self._count()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the doubles."""
        self._open.close()

    def settings(self) -> Tables:
        """Return the tables of the connectors."""
        return {
            name: {
                "use": name,
                **SERVICES[name].settings,
                "url": f"{self.of(name).url}{SERVICES[name].path}",
                "allow": [HOST],
            }
            for name in self.example.services
        }

    def secrets(self) -> list[tuple[str, str, str]]:
        """Return the secrets: of which connector, its name and its value."""
        found = []
        for name in self.example.services:
            if SERVICES[name].is_signed_in:
                found.append((name, "client_secret", CLIENT_SECRET))
                found.append((name, "sign_in", self.google.grant(ACCOUNT)))
            elif name == "outlook":
                found.append((name, "token", TokenGrant(TOKEN).text))
            elif name != "feed":
                found.append((name, "token", secret_line(name, TOKEN)))
        return found

    def made(self) -> tuple[MadeThing, ...]:
        """List what the services have now and had not when the inputs were there."""
        return tuple((Counter(self._look()) - self._before).elements())

    def changes(self) -> int:
        """Count the changes that the services saw since the inputs were there."""
        return self._count() - self._changes_before

    def _count(self) -> int:
        return sum(each.effects(each.account(ACCOUNT)) for each in self.doubles.values())

    def of(self, service: str) -> Any:
        """Return the double of a service."""
        return self.doubles[SERVICES[service].double]

    @property
    def google(self) -> GoogleDouble:
        """The double of Google."""
        found: GoogleDouble = self.of("gmail")
        return found

    def _look(self) -> list[MadeThing]:
        looks = {SERVICES[name].double: name for name in self.example.services}
        return [
            MadeThing(SERVICES[name].title, noun, text)
            for kind, name in looks.items()
            for noun, text in SERVICES[name].look(self.doubles[kind].account(ACCOUNT))
        ]


# -- What the doubles have ------------------------------------------------------------------------


def _of_slack(account: dict[str, Any]) -> list[tuple[str, str]]:
    messages = account["messages"]
    marks = [
        ("reaction", f"{mark['name']} at “{each['text']}”")
        for each in messages
        for mark in each.get("reactions", ())
    ]
    return [("message", each["text"]) for each in messages] + marks


def _of_github(account: dict[str, Any]) -> list[tuple[str, str]]:
    return [("issue", f"#{each['number']} {each['title']}") for each in account["issues"]]


def _of_notion(account: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        ("page", each["properties"]["Name"]["title"][0]["plain_text"]) for each in account["pages"]
    ]


def _of_airtable(account: dict[str, Any]) -> list[tuple[str, str]]:
    rows = [each["fields"] for each in account["rows"]]
    return [
        (
            "row",
            ", ".join(f"{name} {row[name]}" for name in ("Name", "Count", "Done") if name in row),
        )
        for row in rows
    ]


def _of_google(account: dict[str, Any]) -> list[tuple[str, str]]:
    found = [
        ("row", ", ".join(str(each) for each in row[:-1]))
        for sheets in account["books"].values()
        for rows in sheets.values()
        for row in rows
    ]
    names = {own: name for name, own in account["labels"].items()}
    for each in account["messages"].values():
        mail = message_from_bytes(each["raw"], policy=default)
        labels = ", ".join(names[own] for own in each["labelIds"])
        found.append(("mail", f"{mail['Subject']}, to {mail['To']} ({labels})"))
    return found + [("file", each["name"]) for each in account["files"].values()]


def _of_telegram(account: dict[str, Any]) -> list[tuple[str, str]]:
    return [("message", each["text"]) for each in account["sent"]]


def _of_todoist(account: dict[str, Any]) -> list[tuple[str, str]]:
    return [("task", each["content"]) for each in account["made"]]


def _of_hubspot(account: dict[str, Any]) -> list[tuple[str, str]]:
    return [("contact", each["properties"]["email"]) for each in account["made"]]


def _of_discord(account: dict[str, Any]) -> list[tuple[str, str]]:
    return [("message", each["content"]) for each in account["made"]]


def _of_jira(account: dict[str, Any]) -> list[tuple[str, str]]:
    return [("issue", each["fields"]["summary"]) for each in account["made"]]


def _of_linear(account: dict[str, Any]) -> list[tuple[str, str]]:
    return [("issue", each["title"]) for each in account["made"]]


def _of_trello(account: dict[str, Any]) -> list[tuple[str, str]]:
    return [("card", each["name"]) for each in account["made"]]


def _of_nothing(account: dict[str, Any]) -> list[tuple[str, str]]:
    return []


def _google(**settings: Json) -> DailyService:
    return DailyService(
        "Google", GoogleDouble, _of_google, {"client_id": CLIENT, **settings}, is_signed_in=True
    )


SERVICES: Final[Mapping[str, DailyService]] = MappingProxyType(
    {
        "airtable": DailyService("Airtable", AirtableDouble, _of_airtable, {"base": BASE}),
        "discord": DailyService("Discord", DeclaredDesk, _of_discord, path="/discord"),
        "drive": _google(),
        "feed": DailyService("the feed", FeedDouble, _of_nothing, path=PATH),
        "github": DailyService("GitHub", GithubDouble, _of_github),
        "gmail": _google(address=ADDRESS),
        "google_calendar": _google(),
        "hubspot": DailyService("HubSpot", DeclaredDesk, _of_hubspot, path="/hubspot"),
        "jira": DailyService(
            "Jira", DeclaredDesk, _of_jira, {"user": "ada@example.com"}, path="/jira"
        ),
        "linear": DailyService("Linear", DeclaredDesk, _of_linear, path="/linear"),
        "notion": DailyService("Notion", NotionDouble, _of_notion),
        "outlook": DailyService(
            "Outlook", DeclaredDesk, _of_nothing, {"client_id": "client"}, path="/outlook"
        ),
        "sheets": _google(spreadsheet=BOOK, sheet="Book"),
        "slack": DailyService("Slack", SlackDouble, _of_slack),
        "stripe": DailyService("Stripe", StripeDouble, _of_nothing),
        "telegram": DailyService("Telegram", TelegramDouble, _of_telegram),
        "todoist": DailyService("Todoist", DeclaredDesk, _of_todoist, path="/todoist"),
        "trello": DailyService("Trello", DeclaredDesk, _of_trello, path="/trello"),
    }
)


# -- What comes in --------------------------------------------------------------------------------


def _mail(sender: str, subject: str) -> bytes:
    made = EmailMessage()
    made["From"], made["To"], made["Subject"] = sender, ADDRESS, subject
    made["Message-ID"] = f"<{'-'.join(subject.lower().split())}@example.org>"
    made.set_content(f"{subject}. Please have a look.")
    return made.as_bytes()


def _fill_mails(world: DailyWorld) -> None:
    world.google.account(ACCOUNT)["labels"]["Later"] = "Label_1"
    for sender, subject in (
        ("ops@shop.example", "Urgent: the shop is down"),
        ("news@paper.example", "Ten lamps for your desk"),
        ("billing@host.example", "Your invoice 4711 is overdue"),
    ):
        world.google.put_mail(ACCOUNT, _mail(sender, subject))


def _fill_bills(world: DailyWorld) -> None:
    world.google.put_sheet(ACCOUNT, BOOK, "Book", [["customer", "subject", "duly_key"]])
    for sender, subject in (("bob@shop.example", "Invoice 17"), ("eve@host.example", "Invoice 4")):
        world.google.put_mail(ACCOUNT, _mail(sender, subject))


def _fill_meetings(world: DailyWorld) -> None:
    now_ms = wall_ms()
    for hours, title in ((2, "Tea with Bob"), (5, "Plan the week")):
        begin, end = (moment(now_ms + each * HOUR_MS) for each in (hours, hours + 1))
        own = f"event{hours}"
        times = {"start": {"dateTime": begin.isoformat()}, "end": {"dateTime": end.isoformat()}}
        event = {"id": own, "summary": title, "status": "confirmed", "etag": '"1"', **times}
        world.of("google_calendar").account(ACCOUNT)["events"]["primary", own] = event


def _fill_issues(world: DailyWorld) -> None:
    bug = [{"name": "bug"}]
    world.of("github").open(ACCOUNT, "The kettle does not switch off", labels=bug)
    world.of("github").open(ACCOUNT, "Write down how to descale it")
    world.of("github").open(ACCOUNT, "The lid is loose", labels=bug)


def _fill_payments(world: DailyWorld) -> None:
    world.of("sheets").put_sheet(
        ACCOUNT, BOOK, "Book", [["payment", "customer", "amount", "duly_key"]]
    )
    for email, amount, status in (
        ("bob@example.org", 1250, "succeeded"),
        ("eve@example.org", 990, "failed"),
        ("joe@example.org", 48_000, "succeeded"),
    ):
        paid = {"amount": amount, "currency": "eur", "status": status, "receipt_email": email}
        world.of("stripe").put(ACCOUNT, "charges", **paid)


def _fill_customers(world: DailyWorld) -> None:
    for name, email in (("Bob Berg", "bob@example.org"), ("Eve Ems", "eve@example.org")):
        world.of("stripe").put(ACCOUNT, name=name, email=email)


def _fill_news(world: DailyWorld) -> None:
    world.of("feed").put("Tea harvest begins", "Earlier than last year.")
    world.of("feed").put("A new kettle", "It whistles <b>two</b> notes.")


def _fill_orders(world: DailyWorld) -> None:
    world.of("airtable").put(ACCOUNT, Name="Green tea", Count=3)
    world.of("airtable").put(ACCOUNT, Name="Kettle", Count=1)


def _fill_files(world: DailyWorld) -> None:
    for name in ("Minutes of May.txt", "Budget.csv"):
        world.of("drive").put_file(ACCOUNT, name, b"Hello")


def _fill_chat(world: DailyWorld) -> None:
    for text in ("Good morning", "bug: the kettle leaks", "Bug: no tea on the third floor"):
        world.of("slack").write(ACCOUNT, text)


def _fill_inbox(world: DailyWorld) -> None:
    for subject in ("todo: order tea", "Ten lamps for your desk", "Todo: water the plants"):
        world.of("outlook").put_mail(ACCOUNT, subject)


def _fill_nothing(world: DailyWorld) -> None:
    """Leave the services as they are: the inputs come from outside."""


FORMS: Final[tuple[Mapping[str, Json], ...]] = tuple(
    {
        "topic": "form.sent",
        "message_id": f"form-{number}",
        "title": f"Form {number} of {name}",
        "payload": {"name": name, "wish": wish},
    }
    for number, name, wish in ((1, "Bob Berg", "A green one"), (2, "Eve Ems", "Two of each"))
)

DAILY: Final[Mapping[str, DailyExample]] = MappingProxyType(
    {
        each.name: each
        for each in (
            DailyExample("mail-triage", ("gmail", "slack"), _fill_mails),
            DailyExample("bills-to-sheet", ("gmail", "sheets"), _fill_bills),
            DailyExample("issue-digest", ("github", "slack"), _fill_issues),
            DailyExample("form-to-notion", ("notion",), _fill_nothing, events=FORMS),
            DailyExample("payments-to-sheet", ("stripe", "sheets"), _fill_payments),
            DailyExample("minutes-for-meetings", ("google_calendar", "drive"), _fill_meetings),
            DailyExample("meeting-reminders", ("google_calendar", "telegram"), _fill_meetings),
            DailyExample("news-to-telegram", ("feed", "telegram"), _fill_news),
            DailyExample("orders-to-mail", ("airtable", "gmail"), _fill_orders),
            DailyExample("bugs-to-todoist", ("github", "todoist"), _fill_issues),
            DailyExample("files-to-slack", ("drive", "slack"), _fill_files),
            DailyExample("slack-to-issue", ("slack", "github"), _fill_chat),
            DailyExample("customers-to-hubspot", ("stripe", "hubspot"), _fill_customers),
            DailyExample("mails-to-trello", ("outlook", "trello"), _fill_inbox),
            DailyExample("bugs-to-discord", ("github", "discord"), _fill_issues),
            DailyExample("chat-to-jira", ("slack", "jira"), _fill_chat),
            DailyExample("wishes-to-linear", ("linear",), _fill_nothing, events=FORMS),
        )
    }
)
