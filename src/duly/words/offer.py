"""What comes of each thing that can be done, in half a sentence (R9, U6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

DOES: Final[Mapping[str, str]] = {
    "see": "shows more about it",
    "approve": "exactly this call is sent, once",
    "allow": "this call is sent, and the next ones like it need no yes",
    "reject": "nothing is sent; its inputs are skipped",
    "reconnect": "it continues, if you have signed in again",
    "grant": "the workflow may do this, and continues",
    "grant_asks": "from now on the workflow may do this; you are asked before each change",
    "grant_sometimes": "from now on the workflow may do this; you are asked before some changes",
    "grant_makes": "from now on the workflow does this without asking you, also this time",
    "try_again": "Duly finds out once more whether it happened",
    "did_not_happen": "it counts as not made, and the work begins again",
    "happened": "it counts as made, and is never sent again",
    "settle_skip": "it is left open and never sent again; its inputs are skipped",
    "skip": "it ends skipped for good; nothing is sent for it",
    "skip_suspect": "only if it is the cause: it ends skipped for good, and the rest is tried",
    "deploy": "the new version takes it up",
    "retry": "it is tried again, with the version in use",
    "retry_asks": "it begins again from the start, and asks you before this change",
    "retry_sometimes": "it begins again; a change may be made without asking you",
    "retry_makes": "it begins again, and makes its change at once without asking you",
    "abandon": "this attempt ends, and its work comes up again",
    "abandon_applied": "the change stays, and nothing follows from it",
    "abandon_skipped": "its inputs are skipped, and nothing follows from it",
    "pause": "nothing new begins until you resume it",
    "resume": "it continues",
    "run_now": "it checks at once",
    "deliver_again": "it is delivered again",
    "discard": "it is never delivered",
    "resume_bus": "what waits there is delivered",
    "set_secret": "the new value is sealed and used",
    "drop_secret": "it is forgotten for good",
    "verify": "the store is checked; nothing is changed",
    "diff": "shows what is different",
    "adopt": "this version is put to use",
    "decline": "it is not used, and you are not asked about it again",
}
