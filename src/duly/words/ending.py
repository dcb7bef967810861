"""How things ended, and what came of an input (U2, U7, A6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_BY: Final = "[ by {by}]"
_KNOWN: Final = "[ {known}][ {late}.]"
_LEFT: Final = "[: {left}][; {inputs} comes up again{?taken_up}]."
_MORE: Final = "[, and [at least {?at_least}]{more} more]"
_LED: Final = "[; what came of it is still pending{?led_on}]"
_NOTE: Final = "[: {note}]"

SHORT: Final[Mapping[str, str]] = {
    "change_done": (
        "Done on {at}[, as {by} said|, sent once more in a way that cannot make it twice{?resent}]"
        f": {{made}}.{_KNOWN}"
    ),
    "change_rejected": f"Rejected{_BY} on {{at}}: {{made}} was not sent.{_KNOWN}",
    "change_skipped": (
        f"Skipped{_BY} on {{at}}: it is left open whether {{made}} happened, "
        f"and it is never sent again.{_KNOWN}"
    ),
    "change_withdrawn": (
        f"Withdrawn on {{at}}: {{made}} was never sent[; {{inputs}} comes up again{{?taken_up}}]."
        f"{_KNOWN}"
    ),
    "change_failed": f"Not done on {{at}}: {{made}}[ ended with {{message}}].{_KNOWN}",
    "checked": "Done on {at}: it checked for something new.",
    "nothing_to_do": "Done on {at}: it looked, and there was nothing to do.",
    "needed_no_change": "Done on {at}: {inputs} needed no change.",
    "abandoned": f"Abandoned{_BY} on {{at}}{_LEFT}",
    "ended_by_skip": f"Ended on {{at}}, when [{{by}}|a person] skipped what it worked on{_LEFT}",
    "ended_by_pause": f"Dropped on {{at}}, when [{{by}}|a person] paused the workflow{_LEFT}",
    "ended": f"Ended on {{at}}{_LEFT}",
    "followed": (
        "An earlier attempt: it ended on {at}[ with {message}], and the work was taken up again."
    ),
    "removed": f"Removed{_BY} on {{at}}. What it did can still be read.",
    "output_done": f"{{call}} is done{_MORE}{_LED}",
    "output_under_way": f"{{call}} is under way{_MORE}{_LED}",
    "output_waiting": f"{{call}} waits for you{_MORE}{_LED}",
    "output_unknown": f"It is not known yet whether {{call}} happened{_MORE}{_LED}",
    "output_rejected": f"{{call}} was rejected[ by {{by}}] and not sent{_NOTE}{_MORE}{_LED}",
    "output_skipped": f"{{call}} was skipped; it is left open whether it happened{_MORE}{_LED}",
    "output_not_done": f"{{call}} was not done{_NOTE}{_MORE}{_LED}",
    "input_waits": "It is pending",
    "input_behind": (
        "It is pending behind {inputs}[, which waits for you{?is_yours}|, which is not done yet]"
    ),
    "input_held_up": (
        "It is pending until its workflow continues[, which waits for you{?is_yours}]"
    ),
    "input_left_behind": "A newer version left it behind; you can skip it",
    "input_in_work": "It is being worked on",
    "input_led_on": "It was looked at; what came of it is still pending",
    "input_needed_no_change": "It was looked at and needed no change",
    "input_skipped": f"It was skipped{_BY}",
}
