"""What a proof consists of: commands that are there already, each with its share of the time.

A part is *searched* (it takes seeds, and is run piece after piece until its share is used up) or
*whole* (one command, run to its end once, if the proof is long enough for it).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

Figures = dict[str, float]

SEED: Final = "SEED"  # stands for the first seed of a piece
COUNT: Final = "--seeds"
JOBS: Final = "JOBS"  # stands for how many processes work
MINUTES: Final = "MINUTES"  # stands for the share of a part that is one command
PASSED: Final = re.compile(r"(\d+) (passed|failed|errors?|skipped)\b")
NO_SUM: Final = re.compile(r"per_second|median|seconds|cpu_s")  # what pieces do not add up to
COUNTED: Final = re.compile(r"^ *(\d+)  (\S.*)$", re.MULTILINE)
BLOWN: Final = re.compile(r"(\d+) hosts, (\d+) workflows; storm (\d+) s,")
EXAMINED: Final = re.compile(
    r"(\d+) (pairs|never|interleavings|waited for a lock|refused as stale|wrong)\b"
)
WORDS: Final = re.compile(r"([a-z][a-z_ ,]*?) ([0-9.]+)(?: · |$)")


@dataclass(frozen=True, slots=True)
class Part:
    """One part: its command, its share of the minutes, and how its figures are read.

    `piece` is how many seeds a piece takes; 0 says that the part is whole. A whole part is begun
    only in a proof of at least `minutes_min`. A searched part of no `piece` is one long run.
    """

    name: str
    says: str
    command: tuple[str, ...]
    read: Callable[[str], Figures]
    share: float = 0.0
    piece: int = 0
    minutes_min: float = 0.0
    environ: Mapping[str, str] | None = None
    counts: str = ""  # the figure that a goal counts
    wrong: tuple[str, ...] = ("failures", "never_reached", "not found", "problems", "wrong")
    stores: str = "SQLite"

    def words(self, seed: int, jobs: int, minutes: float) -> list[str]:
        """Spell the command of a piece."""
        given = {SEED: str(seed), JOBS: str(jobs), MINUTES: f"{minutes:.2f}"}
        return [given.get(each, each) for each in self.command]

    def template(self, command: Sequence[str]) -> list[str]:
        """Spell the command of a piece with `N` for its seed."""
        pairs = zip(command, ("python", *self.command), strict=True)
        return ["N" if word == SEED else given for given, word in pairs]

    def seeds(self, first: Sequence[str], last: Sequence[str]) -> tuple[int, int] | None:
        """Return the first and the last seed of pieces, by the first and the last command."""
        if SEED not in self.command:
            return None
        place = 1 + self.command.index(SEED)
        # A piece may have been shorter when these were run.
        count = int(last[last.index(COUNT) + 1]) if COUNT in last else max(self.piece, 1)
        return int(first[place]), int(last[place]) + count - 1


def read_json(text: str) -> Figures:
    """Read the numbers of the object that a command printed last; lists count as their lengths."""
    found = json.loads(text[text.index("{") :] if text.lstrip().startswith("{") else "{}")
    figures: Figures = {}
    for name, each in found.items():
        if isinstance(each, int | float) and not NO_SUM.search(name):
            figures[name] = each
        elif isinstance(each, list):
            figures[name] = len(each)
        elif name == "faults":
            figures["faults"] = sum(each.values())
    return figures


def read_planted(text: str) -> Figures:
    """Count the planted bugs that were looked for, and those that were not found."""
    found = json.loads(text)
    return {"hunts": len(found), "not found": sum(each["seed"] is None for each in found)}


def read_pytest(text: str) -> Figures:
    """Read the last line of pytest."""
    last = [line for line in text.splitlines() if line.strip()][-1:]
    return {word: float(number) for line in last for number, word in PASSED.findall(line)}


def read_words(text: str) -> Figures:
    """Read the line of figures that a fire prints at its end."""
    last = [line for line in text.splitlines() if " · " in line][-1:]
    found = {word.strip(): float(number) for line in last for word, number in WORDS.findall(line)}
    return {word: number for word, number in found.items() if not NO_SUM.search(word)}


def read_storm(text: str) -> Figures:
    """Read what a storm counts; what befell its hosts and servers is one sum."""
    figures: Figures = {}
    for number, what in COUNTED.findall(text):
        word = "faults" if what.startswith("hosts or server: ") else what.partition(",")[0]
        figures[word] = figures.get(word, 0) + int(number)
    if blown := BLOWN.search(text):
        hosts, workflows, seconds = map(float, blown.groups())
        figures |= {"hosts": hosts, "workflows": workflows, "minutes": round(seconds / 60, 1)}
    if "notes published" not in figures:
        raise ValueError("a storm that counts nothing")
    return figures


def read_pairs(text: str) -> Figures:
    """Read the last two lines of the isolation exam."""
    last = " ".join(line for line in text.splitlines()[-2:])
    found = {word: float(number) for number, word in EXAMINED.findall(last)}
    if not {"pairs", "interleavings", "wrong"} <= found.keys():
        raise ValueError("an exam that has no end")
    return found


def _search(name: str, says: str, share: float, piece: int, *options: str) -> Part:
    words = ("-m", "verification", *options, "--seeds", str(piece), "--from", SEED)
    command = (*words, "--jobs", JOBS, "--json")
    return Part(
        name, says, command, read_json, share, piece, counts="schedules", stores=_store(name)
    )


def _store(name: str) -> str:
    return "simulated server" if name.endswith("fleet") else "SQLite"


def _whole(name: str, says: str, minutes_min: float, *options: str) -> Part:
    read = read_planted if "--planted" in options else read_json
    words = ("-m", "verification", *options, "--jobs", JOBS, "--json")
    counts = {"--planted": "hunts", "--three-weeks": "changes"}.get(options[-1], "schedules")
    return Part(name, says, words, read, 0, 0, minutes_min, counts=counts, stores=_store(name))


def _tests(
    name: str,
    says: str,
    minutes_min: float,
    *words: str,
    stores: str = "SQLite",
    environ: Mapping[str, str] | None = None,
) -> Part:
    command = (*PYTEST, "-n", JOBS, *words)
    return Part(
        *(name, says, command, read_pytest, 0, 0, minutes_min, environ or EVERY_CASE),
        counts="passed",
        wrong=FAILED,
        stores=stores,
    )


def _fire(name: str, says: str, share: float, piece: int, *words: str) -> Part:
    command = ("-m", *words, "--rounds", str(piece), "--seed", SEED)
    return Part(name, says, command, read_words, share, piece, counts="rounds")


# The project's settings say `-q`; with another one pytest would not count.
PYTEST: Final = ("-m", "pytest", "-p", "no:cacheprovider")
EVERY_CASE: Final = {"TEST_EVERY_CASE": "1"}
WHOLE_EXAM: Final = {"TEST_EXAM": "all"}
SERVER: Final = "PostgreSQL"


def _on_server(name: str, says: str, *words: str) -> Part:
    command = ("-m", "tests.postgres.on_server", *words)
    counted: dict[str, Any] = {"counts": "passed", "wrong": FAILED, "stores": SERVER}
    return Part(name, says, command, read_pytest, minutes_min=60, **counted)


FAILED: Final = ("failed", "error", "errors")
SOAK: Final = ("-m", "tests.proof.soak", "--minutes", MINUTES, "--seed", SEED)
POWER: Final = ("-m", "tests.proof.power", "--seeds", "10", "--from", SEED)
DEATHS: Final = "tests/connectors/test_deaths.py"
PARTS: Final = (
    _search("random scenarios, engine", "several crashes, faults and people's acts", 0.25, 2000),
    _search("random scenarios, bus", "the event bus", 0.08, 2000, "--bus"),
    _search("random scenarios, fleet", "several hosts on one store", 0.12, 1000, "--fleet"),
    Part(
        "power cuts", "before every write and sync", POWER, read_json, 0.08, 10, counts="power_cuts"
    ),
    _fire("kill -9", "real hosts, killed at drawn moments", 0.08, 100, "tests.fire"),
    _fire("kill -9, threads", "`duly serve`, every harm", 0.08, 30, "tests.fire", "--threads"),
    _fire("kill -9, mail", "IMAP, SMTP and SQL, cut and killed", 0.06, 50, "tests.fire.mail"),
    Part(
        "soak",
        "50 runs a second with faults, a kill a minute",
        SOAK,
        read_json,
        0.25,
        counts="minutes",
    ),
    _whole("one crash, engine", "every scenario with one crash", 30, "--exhaustive"),
    _whole("one crash, bus", "every scenario with one crash", 10, "--bus", "--exhaustive"),
    _whole("one pause, fleet", "every pause longer than a lease", 60, "--fleet", "--exhaustive"),
    _whole("planted bugs, engine", "each must be found, three times", 60, "--planted"),
    _whole("planted bugs, bus", "each must be found, three times", 60, "--bus", "--planted"),
    _whole("planted bugs, fleet", "each must be found, three times", 60, "--fleet", "--planted"),
    _whole("three weeks", "three weeks of a laptop", 30, "--three-weeks"),
    _tests("hostile corpus", "every attack on the sandbox", 30, "tests/sandbox/hostile"),
    _tests("connector exams", "every connector against its doubles", 30, "tests/connectors"),
    Part(
        "connector deaths",
        "every change of a service, killed at every line of its own",
        (*PYTEST, "-n", JOBS, DEATHS),
        read_pytest,
        minutes_min=60,
        environ=WHOLE_EXAM,
        counts="passed",
        wrong=FAILED,
    ),
    Part(
        "examples",
        "every workflow of daily life, crashed at every point",
        ("-m", "tests.proof.example"),
        read_json,
        minutes_min=60,
        counts="crashes",
    ),
    Part(
        "empty machine",
        "the README's commands and the three short paths",
        ("-m", "tests.empty_machine"),
        read_json,
        minutes_min=60,
        counts="steps",
    ),
    Part(
        "container image",
        "its file followed; both databases, and the hostile corpus in it",
        ("-m", "tests.image"),
        read_json,
        minutes_min=60,
        counts="tried",
    ),
    _tests(
        "both stores",
        "SQLite and PostgreSQL, the whole exam of every verb",
        30,
        *("tests/store", "tests/postgres"),
        stores="SQLite, PostgreSQL",
        environ={**EVERY_CASE, **WHOLE_EXAM},
    ),
    Part(
        "storm of a fleet",
        "real hosts and a standby; ten minutes and 10,000 runs at least",
        ("-m", "tests.postgres.storm", "--seed", SEED),
        read_storm,
        minutes_min=60,
        counts="notes published",
        wrong=("committed more than once", "events of the bus left in between"),
        stores=SERVER,
    ),
    Part(
        "pairs of verbs",
        "two at once, in every interleaving, like one after the other",
        ("-m", "tests.postgres.pairs"),
        read_pairs,
        minutes_min=240,
        counts="pairs",
        stores=SERVER,
    ),
    _on_server("suites on a server", "the tests of engine, desk, bus and examples, on PostgreSQL"),
    _on_server("of a file alone", "what is left out there: each of them must fail there", "named"),
)


@dataclass(frozen=True, slots=True)
class Goal:
    """How much must be run of some parts; `least` 0 asks for each of them once, as a whole."""

    says: str
    parts: tuple[str, ...]
    least: int = 0
    unit: str = ""
    is_sum: bool = True  # or one run must reach it


def _family(kind: str) -> tuple[str, ...]:
    return tuple(f"{kind}, {each}" for each in ("engine", "bus", "fleet"))


ONE_CRASH: Final = ("one crash, engine", "one crash, bus", "one pause, fleet")
FIRES: Final = ("kill -9", "kill -9, threads", "kill -9, mail")
GOALS: Final = (
    Goal("random scenarios", _family("random scenarios"), 1_000_000, "scenarios"),
    Goal("every scenario with one crash", ONE_CRASH),
    Goal("every planted bug, three times", _family("planted bugs")),
    Goal("kill -9", FIRES, 2000, "rounds"),
    Goal("power cuts", ("power cuts",), 100_000, "cuts"),
    Goal("soak, in one run", ("soak",), 60, "minutes", is_sum=False),
    Goal("three weeks of a laptop", ("three weeks",)),
    Goal("attacks on the sandbox", ("hostile corpus",)),
    Goal("connectors", ("connector exams", "connector deaths", "examples")),
    Goal("both stores", ("both stores", "suites on a server", "of a file alone")),
    Goal("a storm over a fleet", ("storm of a fleet",), 10_000, "notes", is_sum=False),
    Goal("every pair of verbs at once", ("pairs of verbs",)),
    Goal("an empty machine and the image", ("empty machine", "container image")),
)


def add(figures: Sequence[Figures]) -> Figures:
    """Add up the figures of pieces; memory is not a sum, so that of the last piece counts."""
    total: Figures = {}
    for each in figures:
        for name, number in each.items():
            total[name] = number if "memory" in name else total.get(name, 0) + number
    return total
