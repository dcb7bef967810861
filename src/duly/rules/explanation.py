"""Why things stand as they do, in one or two sentences for somebody who never saw the code (U7).

Law 1  A sentence says what waits, for whom, and what to do; nothing in it needs to be looked up,
       so no word of the machinery occurs in it (U5).
Law 2  Of a change the call that was seen comes first, and what the script calls it is marked as the
       script's words (L11). A title never decides which sentence is said.
Law 3  What went wrong is quoted, so that nobody takes another's words for ours.
Law 4  The first line of a table that applies is the one that is said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from duly.rules.permission import Lack
from duly.rules.schedule import describe_wait
from duly.rules.standing import Facts, say_obstacle
from duly.rules.word import Kind, MutationStatus, Phase, Status, Waits, Way
from duly.rules.wording import capital, in_quotes, name_all, quote, say_unconnected

NO_HELP: Final = "nothing is needed from you"
YOU_MAY: Final = "if you know whether it happened, you may say so"


@dataclass(frozen=True, slots=True)
class Case:
    """An open run and everything about it that a person may want to hear.

    `inputs` are the titles of what it works on, `message` what went wrong in its own words, `tries`
    how often; `paused` says by whom and since when, `can_be_asked` whether the outside can tell
    what became of a call (else it is sent again, which a pause forbids). `lack` is what is not
    granted here; if nothing is, the outside itself did not allow it. `waiting` is how much else
    waits to be taken up (“2 orders wait”), `suspect` the title of what a script that took nothing
    may have failed over.
    """

    facts: Facts
    way: Way
    now_ms: int
    inputs: tuple[str, ...] = ()
    message: str = ""
    tries: int = 0
    paused: str = ""
    can_be_asked: bool = True
    workflow: str = ""
    place: str = ""
    lack: Lack | None = Lack.CAPABILITY
    waiting: str = ""
    suspect: str = ""

    @property
    def change(self) -> str:
        """The change and what it is for; commas keep “and 2 more” apart from what follows."""
        if len(self.inputs) > 1:
            return f"{self.facts.change}, for {self.subject},"
        return f"{self.facts.change} for {self.subject}" if self.inputs else self.facts.change

    @property
    def whole(self) -> str:
        """The workflow by its name."""
        return f"the workflow {in_quotes(self.workflow)}" if self.workflow else "the workflow"

    @property
    def name(self) -> str:
        """The same, in short."""
        return in_quotes(self.workflow) if self.workflow else "the workflow"

    @property
    def there(self) -> str:
        """The place outside that is spoken of."""
        return self.place or "the service"

    @property
    def service(self) -> str:
        """The same, as the one who answers."""
        return f"the service {self.place}" if self.place else "the service"

    @property
    def call(self) -> str:
        """The change, to begin a sentence with: a tool's name is written as it is."""
        return f"The call {self.change}"

    @property
    def subject(self) -> str:
        """What it works on."""
        return name_all(self.inputs) or "its next input"

    @property
    def doing(self) -> str:
        """What was being done, to go behind “while” or “Duly is”."""
        run = self.facts.run
        assert run is not None, self
        if run.kind is Kind.PRODUCER:
            return "checking for something new"
        if run.phase is Phase.PREPARING:
            return "choosing what to work on next"
        if run.outcome is None:
            return f"working on {self.subject}"
        return f"finishing {self.subject}{FINISHING.get(run.row, '')}"

    @property
    def trouble(self) -> str:
        """What went wrong, quoted, to go behind a statement."""
        said = quote(self.message)
        return f": {said}" if said else ""

    @property
    def wait(self) -> str:
        """How long until the host goes on."""
        due_at_ms = self.facts.due_at_ms
        if due_at_ms is None or due_at_ms <= self.now_ms:
            return "now"
        return f"in {describe_wait(due_at_ms - self.now_ms)}"

    @property
    def cure(self) -> str:
        """What may help as well; nobody knows whether what came first is the cause (U3)."""
        return f"; if {in_quotes(self.suspect)} is the cause, skip it" if self.suspect else ""

    @property
    def is_in_the_way(self) -> bool:
        """Whether it stands still and something waits until it moves on (F6)."""
        stands_still = self.way is not Way.HOST or self.facts.paused
        return bool(self.waiting) and stands_still and not self.facts.has_call_out

    @property
    def behind(self) -> str:
        """What it holds up, to go at the end of what is said of it (F6)."""
        if not self.is_in_the_way:
            return ""
        # Whoever took nothing yet may stand still because of the very thing that waits.
        place = "" if self.facts.run and self.facts.run.phase is Phase.PREPARING else " behind it"
        return f"; until then nothing else of {self.name} begins, and {self.waiting}{place}"


# What is known of the change when the rest is being finished; without a call there is none.
FINISHING: Final[Mapping[MutationStatus | None, str]] = {
    MutationStatus.APPLIED: ", whose change is done",
    MutationStatus.REJECTED: ", whose change was declined",
    MutationStatus.SKIPPED: ", whose change was skipped",
}


# -- Something is open (U7) ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of the table: where it applies, and what it says."""

    applies: Callable[[Case], bool]
    say: Callable[[Case], str]


def _waits(waits: Waits) -> Callable[[Case], bool]:
    return lambda case: case.facts.run is not None and case.facts.run.waits is waits


def _is(status: Status, *rows: MutationStatus) -> Callable[[Case], bool]:
    """Tell a status, and the ledger's word with it where that matters."""
    return lambda case: case.facts.status is status and (not rows or _row(case) in rows)


def _row(case: Case) -> MutationStatus | None:
    return case.facts.run.row if case.facts.run else None


def _is_paused(case: Case) -> bool:
    return case.facts.paused


def _for_person(status: Status) -> Callable[[Case], bool]:
    return lambda case: (
        case.facts.status is status and (case.way is Way.PERSON or case.facts.escalated is not None)
    )


def _fails(*rows: MutationStatus) -> Callable[[Case], bool]:
    """Tell a script's failure that waits for a person, and the ledger's word where it matters."""
    return lambda case: _for_person(Status.FAILED_LOGIC)(case) and (not rows or _row(case) in rows)


def _needed(case: Case) -> str:
    return case.facts.waits_for or "what it needs"


def _goes_on(case: Case, usual: str) -> str:
    """Say what follows when what it needs is there; in a paused workflow nothing does (F7)."""
    return f" and resume the workflow, for {case.paused}" if case.facts.paused else usual


_CORRECT: Final = "Deploy a corrected version"
_AGAIN: Final = "try it again, or give it up"
_STOPPED: Final = " and this goes on where it stopped"

ASKED: Final[tuple[_Line, ...]] = (
    _Line(
        lambda case: _row(case) is MutationStatus.INDETERMINATE,
        lambda case: (
            f"Nobody can tell whether {case.change} happened{case.trouble}. "
            f"Look in {case.there} yourself and say whether it happened, or skip it"
            f"{'' if case.is_in_the_way else f'; all else in {case.whole} waits'}."
        ),
    ),
    _Line(
        lambda case: case.facts.is_unblocked and case.facts.paused,
        lambda case: (
            f"What it waited for, {_needed(case)}, is there; but {case.paused}. Resume it to go on."
        ),
    ),
    _Line(
        lambda case: case.facts.is_unblocked,
        lambda case: (
            f"What it waited for, {_needed(case)}, is there. "
            f"Duly goes on by itself, {case.doing}; {NO_HELP}."
        ),
    ),
    _Line(
        lambda case: _waits(Waits.APPROVAL)(case) and case.facts.paused,
        lambda case: (
            f"{case.call} waits for your yes or no, and {case.paused}. "
            "Resume the workflow before you approve it, or reject it now; nothing was sent."
        ),
    ),
    _Line(
        _waits(Waits.APPROVAL),
        lambda case: (
            f"{case.call} waits for your yes or no; nothing was sent. "
            f"Approve it to send exactly this call once, or reject it to skip {case.subject}."
        ),
    ),
    _Line(
        _waits(Waits.CONNECTION),
        lambda case: (
            f"{say_unconnected(_needed(case), case.doing)}"
            f"{_goes_on(case, f', and {case.whole} goes on where it stopped')}."
        ),
    ),
    _Line(
        lambda case: _waits(Waits.GRANT)(case) and case.lack is Lack.MUTATIONS_PER_DAY,
        lambda case: (
            f"The limit of the day for {_needed(case)} is used up{case.trouble}; "
            f"Duly was {case.doing}. Try it again after midnight UTC, or grant a higher limit"
            f"{_goes_on(case, _STOPPED)}."
        ),
    ),
    _Line(
        lambda case: _waits(Waits.GRANT)(case) and case.lack is Lack.WHERE,
        lambda case: (
            f"The grant of {_needed(case)} does not reach so far{case.trouble}; "
            f"Duly was {case.doing}. Widen it{_goes_on(case, _STOPPED)}, or give this work up."
        ),
    ),
    _Line(
        lambda case: _waits(Waits.GRANT)(case) and case.lack is None,
        lambda case: (
            f"It is granted here, but {case.service} itself refused{case.trouble}; "
            f"Duly was {case.doing}. Have it allowed there, then try it again, or grant "
            f"{_needed(case)} here once more{_goes_on(case, _STOPPED)}."
        ),
    ),
    _Line(
        _waits(Waits.GRANT),
        lambda case: (
            f"Duly needs your leave to use {_needed(case)} for {case.doing}{case.trouble}. "
            f"Grant it{_goes_on(case, _STOPPED)}, or give this work up."
        ),
    ),
)

FAILED: Final[tuple[_Line, ...]] = (
    _Line(
        _fails(MutationStatus.APPLIED),
        lambda case: (
            f"{case.call} is done, but the script failed afterwards{case.trouble}. "
            f"{_CORRECT} and it goes on from there; the change is not made again."
        ),
    ),
    _Line(
        _fails(MutationStatus.REJECTED),
        lambda case: (
            f"{case.call} was declined, and the script failed afterwards{case.trouble}. "
            f"{_CORRECT}, or give this work up."
        ),
    ),
    _Line(
        _fails(MutationStatus.SKIPPED),
        lambda case: (
            f"{case.call} was skipped, and the script failed afterwards{case.trouble}. "
            f"{_CORRECT}, or give this work up."
        ),
    ),
    _Line(
        _fails(MutationStatus.FAILED),
        lambda case: (
            f"{case.call} was refused{case.trouble}; nothing was changed. "
            f"{_CORRECT}, or skip {case.subject}."
        ),
    ),
    _Line(
        lambda case: _fails()(case) and not case.inputs,
        lambda case: (
            f"The script failed while {case.doing}{case.trouble}. {_CORRECT}, {_AGAIN}{case.cure}."
        ),
    ),
    _Line(
        _fails(),
        lambda case: (
            f"The script failed while {case.doing}{case.trouble}. "
            f"{_CORRECT}, or skip {case.subject}."
        ),
    ),
    _Line(
        _for_person(Status.PAUSED_TRANSIENT),
        lambda case: (
            f"{case.tries} attempts failed while {case.doing}{case.trouble}. "
            f"When the trouble is over, {_AGAIN}."
        ),
    ),
    _Line(
        _for_person(Status.CRASHED),
        lambda case: (
            f"Duly was stopped {case.tries} times in a row while {case.doing}. "
            f"Find out what stops it, then {_AGAIN}."
        ),
    ),
    _Line(
        _is(Status.FAILED_INTERNAL),
        lambda case: (
            f"A fault of Duly or a connector came up while {case.doing}{case.trouble}. "
            f"Have it mended, then {_AGAIN}"
            f"{'' if case.is_in_the_way else '; until then this workflow does nothing'}."
        ),
    ),
)

MOVING: Final[tuple[_Line, ...]] = (
    _Line(
        lambda case: case.facts.is_unsent and case.facts.paused,
        lambda case: f"{case.call} is approved, but {case.paused}. Resume it and it is sent.",
    ),
    _Line(
        lambda case: case.facts.is_unsent,
        lambda case: f"{case.call} is approved and is sent next. Duly does that by itself.",
    ),
    _Line(
        lambda case: _is_paused(case) and case.facts.has_call_out,
        lambda case: (
            f"{capital(case.paused)}; {case.change} had begun and will still be finished. "
            "Nothing new begins before you resume it."
        ),
    ),
    _Line(
        _is(Status.PAUSED_RECONCILIATION, MutationStatus.IN_FLIGHT),
        lambda case: (
            f"{case.call} is being sent once more, in a way that cannot make it twice. "
            f"Its answer is awaited; {NO_HELP}."
        ),
    ),
    _Line(
        lambda case: (
            _is(Status.PAUSED_RECONCILIATION)(case) and case.facts.paused and not case.can_be_asked
        ),
        lambda case: (
            f"It is not known yet whether {case.change} happened, and {case.paused}. "
            "Resume it, and Duly finds out by itself."
        ),
    ),
    _Line(
        lambda case: _is(Status.PAUSED_RECONCILIATION)(case) and case.facts.paused,
        lambda case: (
            f"It is not known yet whether {case.change} happened, and {case.paused}. "
            f"Duly still finds out by itself, {case.wait}; what follows waits until you resume it."
        ),
    ),
    _Line(
        _is(Status.PAUSED_RECONCILIATION),
        lambda case: (
            f"It is not known yet whether {case.change} happened{case.trouble}. "
            f"Duly finds out by itself, {case.wait}; {YOU_MAY if case.facts.is_told else NO_HELP}."
        ),
    ),
    _Line(
        lambda case: _is_paused(case) and case.facts.blind_since_ms is not None,
        lambda case: (
            f"{capital(case.paused)}; back then Duly was {case.doing}. "
            "Compare what it is about to do with what is there already, then resume it."
        ),
    ),
    _Line(
        _is_paused,
        lambda case: f"{capital(case.paused)} while Duly was {case.doing}. Resume it to go on.",
    ),
    _Line(
        _is(Status.FAILED_LOGIC),
        lambda case: (
            f"The script failed while {case.doing}{case.trouble}. "
            f"A corrected version is being asked for; {NO_HELP} yet."
        ),
    ),
    _Line(
        _is(Status.PAUSED_TRANSIENT),
        lambda case: (
            f"{say_obstacle(case.facts, case.doing)}{case.trouble}. "
            f"Duly tries again by itself, {case.wait}; {NO_HELP}."
        ),
    ),
    _Line(
        _is(Status.CRASHED),
        lambda case: (
            f"Duly was stopped while {case.doing}. It goes on by itself, {case.wait}; {NO_HELP}."
        ),
    ),
    _Line(
        _is(Status.ACTIVE, MutationStatus.IN_FLIGHT),
        lambda case: f"{case.call} is on its way. Its answer is awaited; {NO_HELP}.",
    ),
    _Line(lambda _: True, lambda case: f"Duly is {case.doing}; {NO_HELP}."),
)
LINES: Final = (*ASKED, *FAILED, *MOVING)


def explain(case: Case) -> str:
    """Say of something open what waits, for whom, what to do, and what it holds up (U7, F6)."""
    said = next(capital(line.say(case)) for line in LINES if line.applies(case))
    return f"{said.removesuffix('.')}{case.behind}."


def needs_person(facts: Facts, way: Way) -> bool:
    """Tell whether only a person can move an open run on; a pause is their own wish (F8)."""
    return (way is Way.PERSON or facts.escalated is not None) and not facts.is_unblocked


# -- Nothing is open ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rest:
    """A workflow with nothing open: what is planned, and what waits.

    Times are milliseconds; `is_due` says that something would begin at once, `waiting` how much
    the script has looked at and left.
    """

    now_ms: int
    paused: str = ""
    is_due: bool = False
    rests_until_ms: int | None = None
    check_at_ms: int | None = None
    wake_at_ms: int | None = None
    waiting: str = ""
    can_be_asked: bool = False

    @property
    def later(self) -> str:
        """When it looks again by itself."""
        times = [
            f"{word} comes in {describe_wait(at_ms - self.now_ms)}"
            for word, at_ms in (
                ("the next check", self.check_at_ms),
                ("a look the script asked for", self.wake_at_ms),
            )
            if at_ms is not None and at_ms > self.now_ms
        ]
        return ", and ".join(times)


def explain_rest(rest: Rest) -> str:
    """Say why nothing happens in a workflow right now (U7)."""
    if rest.paused:
        left = f", with {rest.waiting}" if rest.waiting else ""
        return f"{capital(rest.paused)}{left}. Resume it to go on."
    if rest.is_due:
        return f"There is something to do, and Duly begins as soon as it gets to it; {NO_HELP}."
    if rest.rests_until_ms is not None:
        wait = describe_wait(rest.rests_until_ms - rest.now_ms)
        return (
            f"It waits for {wait}, because the last time it only published something new "
            "and took nothing that waited."
        )
    later = rest.later
    if rest.waiting:
        again = f"; {later}" if later else ""
        return (
            f"With {rest.waiting}, the script looked and took nothing. "
            f"It looks again when something new comes in{again}; until then you can skip what "
            "waits, or deploy a version that takes it."
        )
    if later:
        return f"Nothing is waiting; {later}."
    asked = ", or when you ask for a check" if rest.can_be_asked else ""
    return f"Nothing is waiting. It begins when something comes in{asked}."


def explain_removed(at: str, by: str) -> str:
    """Say that a workflow is out of service (W10)."""
    return f"Removed{f' by {by}' if by else ''} on {at}. What it did can still be read."
