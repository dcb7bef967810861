"""What each example of daily life makes at its services, whatever store is below.

A test that only compares two counts would believe an idle example.
"""

from __future__ import annotations

from typing import Final

from duly.api.example import PlayedExample

MADE: Final = {
    "mail-triage": ["mail", "message", "message"],
    "bills-to-sheet": ["mail", "mail", "row", "row"],
    "issue-digest": ["message"],
    "form-to-notion": ["page", "page"],
    "payments-to-sheet": ["row", "row"],
    "minutes-for-meetings": ["file", "file"],
    "meeting-reminders": ["message", "message"],
    "news-to-telegram": ["message", "message"],
    "orders-to-mail": ["mail", "mail", "row", "row"],
    "bugs-to-todoist": ["task", "task"],
    "files-to-slack": ["message", "message"],
    "slack-to-issue": ["issue", "issue", "reaction", "reaction"],
    "customers-to-hubspot": ["contact", "contact"],
    "mails-to-trello": ["card", "card"],
    "bugs-to-discord": ["message", "message"],
    "chat-to-jira": ["issue", "issue"],
    "wishes-to-linear": ["issue", "issue"],
}
TEXTS: Final = {
    "bills-to-sheet": {
        "bob@shop.example, Invoice 17",
        "Invoice 4, to Ada <ada@example.com> (UNREAD)",
    },
    "mail-triage": {"ops@shop.example writes: Urgent: the shop is down"},
    "orders-to-mail": {
        "Name Kettle, Count 1, Done True",
        "Order rec0002, to store@example.com (SENT)",
    },
    "payments-to-sheet": {"ch_0001, bob@example.org, 12.50 EUR"},
}


def expect_made(name: str, played: PlayedExample) -> None:
    """Check that ledger and services agree, and that the services have what was to make, once."""
    assert played.is_agreed
    assert sorted(each.noun for each in played.made) == MADE[name]
    assert TEXTS.get(name, set()) <= {each.text for each in played.made}
    assert len(set(played.made)) == len(played.made) == played.changes
