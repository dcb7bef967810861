"""What a message says that asks a person, and what is said to a press (G9, G11).

Law 1  The observed call stands first, every character of it, under the names its tool gives; each
       line of a long text is marked, so that none looks like a field or like our words.
Law 2  The script's words come after it, in quotation marks.
Law 3  A press is answered with what became of it, and with what did not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from duly.rules.shown import cut, visible
from duly.rules.slip import PressCode, SlipEnd
from duly.words.phrase import in_quotes, name_all, person

MARK: Final = "  | "
NAME_CHARS_MAX: Final = 100
SUBJECT_CHARS_MAX: Final = 150
NOTHING: Final = "Nothing was changed."


@dataclass(frozen=True, slots=True)
class ShownCall:
    """A call as a message shows it: the form of its tool, and what the script calls it."""

    mutation: str
    workflow: str
    tool: str
    hash: str
    form: tuple[tuple[str, str], ...]
    claimed: str | None
    inputs: tuple[str, ...] = ()
    amended_by: str | None = None


PRESSED: Final[Mapping[PressCode, str]] = {
    PressCode.SENT: "Yes. Exactly this call is sent, once.",
    PressCode.DECLINED: "No. Nothing is sent.",
    PressCode.WHERE: "Open the page of the host, or type there: duly why {mutation}",
    PressCode.STRANGER: f"This account is not paired with Duly here. {NOTHING}",
    PressCode.OLD: f"This message is not valid any more. {NOTHING} Look at the newest one.",
    PressCode.CHANGED: f"The call was changed since. {NOTHING} Another message shows it.",
    PressCode.DECIDED: "{ended} {nothing}",
    PressCode.REFUSED: f"{{cause}} {NOTHING}",
}
ENDED: Final[Mapping[SlipEnd, str]] = {
    SlipEnd.APPROVED: "Approved by {by}.",
    SlipEnd.REJECTED: "Rejected by {by}; nothing was sent.",
    SlipEnd.CHANGED: "The call was changed since. Another message shows it.",
    SlipEnd.OLD: "This message is too old to be answered. Another one asks again.",
    SlipEnd.UNPAIRED: "This account is not paired any more.",
    SlipEnd.OVER: "This call does not wait for an answer any more.",
}
TOO_LONG: Final = (
    "The call is too long for a message ({chars} characters). Open it to see all of it; it cannot"
    " be answered here."
)
PAIRED: Final = "This account is paired as {name}. It is asked from now on, and may say yes or no."
CODE_OVER: Final = "This code is not valid, or was used. Ask for another one."


def tell_call(call: ShownCall) -> str:
    """Write the question."""
    lines = [f"{in_quotes(call.workflow)} asks: may this be sent?", "", visible(call.tool)]
    lines += [_field(label, text) for label, text in call.form]
    lines.append("")
    if call.amended_by is not None:
        lines.append(f"Changed by {person(call.amended_by)}.")
    if call.claimed is not None:
        lines.append(f"The script calls it {in_quotes(call.claimed)}.")
    if call.inputs:
        lines.append(f"For {name_all(call.inputs)}.")
    return "\n".join(lines).rstrip()


def tell_too_long(call: ShownCall, chars: int) -> str:
    """Say that a message cannot hold a call, and where it is seen."""
    asks = f"{in_quotes(_short(call.workflow))} asks: may this be sent?"
    return f"{asks}\n\n{_short(call.tool)}\n{TOO_LONG.format(chars=chars)}"


def tell_name(call: ShownCall) -> str:
    """Name a call that was decided, where a message cannot hold all of it."""
    return f"{in_quotes(_short(call.workflow))}: {_short(call.tool)}"


def tell_how_to_answer(link: str) -> str:
    """Say how a mail is answered."""
    return f"To say yes or no, open this link; it is for this question alone:\n{link}"


def tell_where(mutation: str) -> str:
    """Say where a call is seen that cannot be answered here."""
    return PRESSED[PressCode.WHERE].format(mutation=mutation)


def tell_day(done: int, waiting: int, most: int) -> str:
    """Tell of the last day in one line."""
    did = "1 change was made" if done == 1 else f"{done} changes were made"
    at_least = "at least " if waiting >= most else ""
    waits = "1 thing waits" if waiting == 1 else f"{at_least}{waiting} things wait"
    return f"In the last 24 hours {did}; {waits if waiting else 'nothing waits'} for you."


def tell_subject(call: ShownCall) -> str:
    """Write one line that names a question."""
    return cut(visible(f"{call.workflow}: {call.tool} waits for your answer"), SUBJECT_CHARS_MAX)


def tell_end(end: SlipEnd, by: str | None) -> str:
    """Say what was decided."""
    return ENDED[end].format(by=person(by) if by else "a person")


def tell_press(
    code: PressCode,
    *,
    mutation: str = "",
    end: SlipEnd | None = None,
    by: str | None = None,
    cause: str = "",
) -> str:
    """Say what became of a press."""
    ended = "" if end is None else tell_end(end, by)
    return PRESSED[code].format(mutation=mutation, ended=ended, nothing=NOTHING, cause=cause)


def _field(label: str, text: str) -> str:
    name, shown = visible(label), visible(text, is_block=True)
    if "\n" not in shown:
        return f"{name}: {shown}"
    return "\n".join([f"{name}:", *(f"{MARK}{line}" for line in shown.split("\n"))])


def _short(text: str) -> str:
    return cut(visible(text), NAME_CHARS_MAX)
