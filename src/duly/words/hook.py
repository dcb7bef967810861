"""Labels and sentences of the page about webhooks (G12)."""

from __future__ import annotations

from typing import Final

WHAT: Final = (
    "A service outside, or a form, can publish into a topic with ingress. It posts JSON, and the"
    " body is the payload. Open a webhook to get the address, whose key is shown once."
)
SAME: Final = (
    "A sender that tries again sends the same body, and an event that came before is not made"
    " twice. Of a form without an id, two equal wishes are then one: let each post be new, or name"
    " a field that has an id."
)
POSTS: Final = "The address of a webhook begins so; its key comes behind it, after a slash:"
OPEN: Final = "These are open. A key is shown once, when it is made, and not listed here."
AND_KEY: Final = "then a slash and the key"
SIGNED_ID: Final = "those with the same id, or the same body, as it is signed"
UNREADABLE: Final = "Its secret cannot be read here, so that each post is refused. Make a new one."
USUAL_TITLE: Final = "title, subject, type or action, else its first fields"
CLOSES: Final = "What is posted there is refused from then on, and lost if its sender gives up."
NEW_KEY: Final = (
    "The old one stops at once: what is posted with it is refused. Then give the new one to the"
    " sender."
)
OTHER: Final = "Open another webhook"
ID_NAME: Final = "Name of the header or field, if you chose one of these"
GIVEN: Final = "Of Slack and Stripe alone: the signing secret that it shows you"
REFUSED: Final = {
    "not_open": "no webhook is open there",
    "wrong_key": "wrong key",
    "wrong_signature": "wrong signature or time",
    "no_id": "the id that you named is missing",
    "not_taken": "what was posted can be no event",
    "wrong_type": "it did not say that it is JSON",
    "too_long": "it was too long",
    "unreadable": "it did not come whole, or is no text",
    "too_fast": "its sender posted too often at once, and was told when to come again",
}
SENDERS: Final = {
    "standard": "a form or any service (secret address, or Standard Webhooks)",
    "github": "GitHub, which signs",
    "slack": "Slack, which signs",
    "stripe": "Stripe, which signs",
}
IDS_FROM: Final = {
    "body": "those with the same body",
    "post": "none: each post is new",
    "header": "those with the same id in a header",
    "field": "those with the same id in a field of the body",
}
ADDRESS: Final = "The address; its end is a key, so that who knows it can post"
TRY: Final = "To try it, type this in a terminal"
SIGNS: Final = (
    "One that signs as Standard Webhooks say needs no key: it has the address below and the secret."
)
PATH: Final = "The address without a key"
SECRET: Final = "The secret with which it signs"
OWN_SECRET: Final = "It signs with the secret that it gave you."
ELSEWHERE: Final = "It is taken at these addresses too:"
ONLY_HERE: Final = (
    "Only this machine reaches this address. For a service elsewhere, name the public address of"
    " the page in duly.toml: hosts below [page], with a certificate or a proxy. That name then"
    " stands before the path."
)
NOTHING_YET: Final = "Nothing came in yet."
LOOKS_TOO: Final = "Its producers look by themselves too; Run now looks at once."
POSTED_TO: Final = "What is posted to it comes in by a webhook, and none is open:"
OPENS_ONE: Final = "open a webhook"
POSTS_AWAITED: Final = "A webhook is open: what its sender posts stands here."


def say_refused_posts(count: int, topic: str) -> str:
    """Say how many posts to a webhook were refused; the time and the reason stand behind it."""
    posts = "1 post" if count == 1 else f"{count} posts"
    return f"{posts} to its webhook for {topic} {'was' if count == 1 else 'were'} refused since"
