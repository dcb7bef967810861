"""Webhooks: the secrets that let a sender publish into a topic, and what it sent (G8, G12).

Law 1  The host checks a webhook, not the process that parses HTTP: the secret never leaves it.
Law 2  A message that proves nothing is refused with one error for every cause, after the same work:
       a sender learns neither which workflows there are nor which of them take webhooks.
Law 3  A message is answered after it is on the disk.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from typing import Final
from urllib.parse import quote

from duly.desk.base import USER, Desk, HasDesk, find, find_history, find_topic
from duly.desk.publication import publish
from duly.errors import Invalid, RequestRefused, Stale, see, short
from duly.rules import webhook
from duly.rules.event import Republish
from duly.rules.schedule import moment, read_moment
from duly.rules.shown import cut, visible
from duly.rules.value import Json, decode
from duly.rules.verb import Scope, act, question
from duly.rules.webhook import HOOKS as HOOKS
from duly.rules.webhook import POSTS_MAX, HookFault, HookSender, IdFrom, UnreadFault
from duly.store import people
from duly.store.base import Transaction
from duly.store.people import SecretRow

FRESH_BYTES: Final = 16  # of the id of a post that is always new
NAME_CHARS_SHOWN: Final = 200

log = logging.getLogger("duly.hook")


@dataclass(frozen=True, slots=True)
class Hook:
    """A webhook that was just opened; `secret` and `key` are shown this once.

    A sender that signs uses `path` and the secret; one that cannot uses `path`, a slash and `key`.
    A secret that was given is not repeated. Only a standard hook has a key. `id_from`, `id_name`
    and `title` are what its owner has said.
    """

    workflow: str
    topic: str
    sender: HookSender
    path: str
    secret: str | None
    key: str | None
    id_from: IdFrom = IdFrom.BODY
    id_name: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class OpenHook:
    """A webhook of a workflow, without its secret and without its key.

    `since` is when its secret was set; null if none is open, and posts came all the same. `secret`
    is the name of its secret among those of `hooks`. `refused` counts the posts that this host has
    refused since it started; `why` is the reason of the last. `is_readable` is false if its secret
    does not open: then each post is refused, and what its owner has said is not known.
    """

    workflow: str
    topic: str
    sender: HookSender
    path: str
    secret: str
    since: datetime | None
    is_readable: bool
    id_from: IdFrom
    id_name: str
    title: str
    refused: int
    refused_from: datetime | None
    refused_at: datetime | None
    why: HookFault | None


class Hooks(HasDesk):
    """What lets a sender outside publish into a topic."""

    @act(scope=Scope.ADMIN, example={"workflow": "invoices", "topic": "mail.received"})
    async def new_hook(
        self,
        workflow: str,
        topic: str,
        *,
        sender: HookSender | str = HookSender.STANDARD,
        secret: str | None = None,
        id_from: IdFrom | str = IdFrom.BODY,
        id_name: str = "",
        title: str = "",
        replace: bool = False,
        over: str | None = None,
        by: str = USER,
    ) -> Hook:
        """Open a topic with ingress to a webhook; its secret is shown this once.

        `sender` says how it signs: standard, github, slack or stripe. Slack and Stripe give the
        `secret` to you; for the others one is made. One that is open is refused, unless `replace`
        says that its secret and its key stop at once. `over` is since when that one is open, as
        `hooks` says it: another one is not replaced, and one that was closed is not opened. To
        close it, drop the secret `workflow/topic` of `hooks`, or `workflow/topic@sender`.

        Of a sender that posts to the address with the key, `id_from` says which posts are the
        same event: those with the same `body`, none (`post`), or those with the same id in the
        `header` or the `field` called `id_name`. `title` is how titles are written, such as
        `{name}: {wish}`.
        """
        # Rules: G12, A5.
        desk = self._desk()
        who = read_sender(sender)
        action = desk.action(by, "new_hook", str(who))
        vault = desk.vault
        if vault is None:
            raise RequestRefused(code="no_vault")
        terms = webhook.check_terms(who, id_from, str(id_name), str(title))
        if secret is None and who in webhook.GIVES_SECRET:
            raise Invalid(code="missing", path="secret", facts={"of": str(who)})

        name = webhook.name_secret(workflow, topic, who)
        shown_ms = None if over is None else read_moment(over, "over")

        def look(tx: Transaction) -> str:
            find_topic(tx, find(tx, workflow), topic, is_orphan_fine=False)
            held = _read_open(tx).get(name)
            _check_open(held, workflow, topic, who, replace=replace, shown_ms=shown_ms)
            return "" if held is None else held.sealed

        before = await desk.look(look)
        made = webhook.write_secret(desk.parts.env.random_bytes(webhook.SECRET_BYTES))
        open_secret = made if secret is None else webhook.check_secret(secret)
        kept = webhook.write_kept(open_secret, terms)
        sealed = await vault.seal(HOOKS, name, kept)
        verb = partial(desk.parts.store.set_secret, HOOKS, name, sealed, over=before)

        async def keep() -> None:
            with _none_between(workflow, topic):
                vault.keep(HOOKS, name, kept, await verb(action=action, now=desk.now_ms))

        await desk.complete(keep)
        return Hook(
            workflow,
            topic,
            who,
            path=_path(workflow, topic),
            secret=made if secret is None else None,
            key=webhook.url_key(open_secret) if who is HookSender.STANDARD else None,
            **asdict(terms),
        )

    @question(example={"workflow": "invoices"})
    async def hooks(self, workflow: str) -> tuple[OpenHook, ...]:
        """List the webhooks of a workflow that are open, without their keys.

        It also lists an address that is not open, if posts to it were refused since the host
        started.
        """
        # Rules: G12, A5.
        desk = self._desk()

        def read(tx: Transaction) -> list[tuple[str, HookSender, str, int | None]]:
            topics = people.list_topics(tx, find_history(tx, workflow).id)
            since = {name: each.set_at for name, each in _read_open(tx).items()}
            places = ((each.name, sender) for each in topics for sender in HookSender)
            named = ((*place, webhook.name_secret(workflow, *place)) for place in places)
            return [(topic, sender, name, since.get(name)) for topic, sender, name in named]

        found = await desk.ask(read)
        refused = desk.refusals.by_name
        return tuple(
            _list(desk, workflow, *each)
            for each in found
            if each[-1] is not None or each[-2] in refused
        )

    @act(
        scope=Scope.AGENT,
        example={
            "workflow": "invoices",
            "topic": "mail.received",
            "body": '{"type": "mail"}',
            "headers": {
                "webhook-id": "msg_1",
                "webhook-timestamp": "1767225600",
                "webhook-signature": "v1,…",
            },
        },
    )
    async def receive(
        self,
        workflow: str,
        topic: str,
        body: str,
        *,
        headers: Mapping[str, str] | None = None,
        key: str | None = None,
        unread: UnreadFault | str | None = None,
        posts: int = 1,
        by: str = USER,
    ) -> Republish | None:
        """Publish what a webhook sent, if it is signed or came to the secret address.

        `body` is the JSON as it was sent. `headers` has the headers that prove it, in small
        letters. A message with an id that came before is the same event; which part of an unsigned
        message is its id was chosen when the webhook was opened. The result is null if the sender
        only asked whether the address is right. With `unread` nothing is published: it counts
        `posts` that were refused before they were read, for this reason (such as too_fast).
        """
        # Rules: G12, T10.
        desk = self._desk()
        action = desk.action(by, "receive")
        headers = headers or {}
        sender = HookSender.STANDARD if key is not None else webhook.find_sender(headers)
        name = webhook.name_secret(workflow, topic, sender)
        kept = None if desk.vault is None else desk.vault.find(HOOKS, name)
        if unread is not None:
            why, count = read_unread(unread, posts)
            desk.refusals.note(name, why, desk.now_ms, is_open=kept is not None, posts=count)
            return None
        secret, terms = (None, webhook.USUAL) if kept is None else webhook.read_kept(kept)
        compared = webhook.DECOY if secret is None else secret
        if key is not None:
            is_known = webhook.is_key(compared, key)
        else:
            is_known = webhook.is_signed(sender, compared, headers, body, desk.now_ms)
        if secret is None or not is_known:
            raise _refuse(desk, name, is_open=secret is not None, has_key=key is not None)
        shown = cut(visible(name), NAME_CHARS_SHOWN)
        try:
            payload = decode(body, "body")
            if webhook.is_challenge(sender, payload):
                return None
            if key is None:
                given = webhook.find_id(sender, headers, payload, body)
            else:
                fresh = f"post-{desk.parts.env.random_bytes(FRESH_BYTES).hex()}"
                given = webhook.find_chosen(terms, headers, payload, body, fresh)
            title = webhook.title_of(payload, given, terms.title)
            message = {"message_id": given, "title": title, "payload": payload}
            what = await publish(desk, workflow, topic, message, action)
        except Invalid as error:
            fault = HookFault.NO_ID if error.code == "hook_id_missing" else HookFault.NOT_TAKEN
            desk.refusals.note(name, fault, desk.now_ms, is_open=True)
            log.warning("A webhook for %s was not taken: %s", shown, visible(error))
            raise
        if what is Republish.DROPPED:
            was = cut(visible(given), NAME_CHARS_SHOWN)
            log.warning(
                "A webhook for %s was not taken: another content with the id %s is done already."
                " Where that was a new event, open the webhook with another place for the id.",
                shown,
                was,
            )
        return what


def _check_open(
    held: SecretRow | None,
    workflow: str,
    topic: str,
    sender: HookSender,
    *,
    replace: bool,
    shown_ms: int | None,
) -> None:
    """Refuse to open what is open, and to replace another webhook than that which was shown."""
    if held is not None and not replace:
        facts: dict[str, Json] = {"workflow": workflow, "sender": str(sender)}
        facts["since"] = moment(held.set_at).isoformat()
        raise RequestRefused(
            code="hook_open", subject=topic, facts=facts, next=see("hooks", workflow=workflow)
        )
    if shown_ms is not None and (held is None or held.set_at != shown_ms):
        raise _changed(workflow, topic)


@contextmanager
def _none_between(workflow: str, topic: str) -> Iterator[None]:
    """Say it where another caller opened, replaced or closed the webhook at the same moment."""
    try:
        yield
    except Stale as error:
        raise _changed(workflow, topic) from error


def _changed(workflow: str, topic: str) -> RequestRefused:
    return RequestRefused(
        code="hook_changed",
        subject=topic,
        facts={"workflow": workflow},
        next=see("hooks", workflow=workflow),
    )


def _refuse(desk: Desk, name: str, *, is_open: bool, has_key: bool) -> RequestRefused:
    """Count and log a post that proves nothing; its sender is told no more than that (G12)."""
    fault = HookFault.WRONG_KEY if has_key else HookFault.WRONG_SIGNATURE
    fault = fault if is_open else HookFault.NOT_OPEN
    desk.refusals.note(name, fault, desk.now_ms, is_open=is_open)
    why = f"wrong {'key' if has_key else 'signature or time'}" if is_open else "none is open"
    log.warning("A webhook for %s was refused: %s", cut(visible(name), NAME_CHARS_SHOWN), why)
    return RequestRefused(code="hook_key_refused" if has_key else "hook_refused")


def _path(workflow: str, topic: str) -> str:
    return f"/hooks/{quote(workflow, safe='')}/{quote(topic, safe='')}"


def _read_open(tx: Transaction) -> dict[str, SecretRow]:
    """Read the secret of each webhook that is open, sealed, by its name."""
    return {each.name: each for each in people.list_secrets(tx) if each.connector == HOOKS}


def _list(
    desk: Desk, workflow: str, topic: str, sender: HookSender, name: str, since: int | None
) -> OpenHook:
    """Tell of one webhook what may be shown; its secret is only read for what stands behind it."""
    kept = None if desk.vault is None or since is None else desk.vault.find(HOOKS, name)
    terms = webhook.USUAL if kept is None else webhook.read_kept(kept)[1]
    refused = desk.refusals.by_name.get(name)
    return OpenHook(
        workflow,
        topic,
        sender,
        path=_path(workflow, topic),
        secret=name,
        since=None if since is None else moment(since),
        is_readable=kept is not None,
        **asdict(terms),
        refused=0 if refused is None else refused.count,
        refused_from=None if refused is None else moment(refused.first_at_ms),
        refused_at=None if refused is None else moment(refused.last_at_ms),
        why=None if refused is None else refused.why,
    )


def read_sender(sender: object) -> HookSender:
    """Return a sender, or name those there are."""
    if sender not in tuple(HookSender):
        facts = {"given": short(sender), "known": [*map(str, HookSender)]}
        raise Invalid(code="not_one_of", path="sender", facts=facts)
    return HookSender(str(sender))


def read_unread(why: object, posts: object) -> tuple[HookFault, int]:
    """Return why posts were not read, and how many they were, or name what is wrong."""
    if why not in tuple(UnreadFault):
        facts = {"given": short(why), "known": [*map(str, UnreadFault)]}
        raise Invalid(code="not_one_of", path="unread", facts=facts)
    if type(posts) is not int or not 1 <= posts <= POSTS_MAX:
        limits: dict[str, Json] = {"given": short(posts), "least": 1, "most": POSTS_MAX}
        raise Invalid(code="out_of_range", path="posts", facts=limits)
    return HookFault(str(why)), posts
