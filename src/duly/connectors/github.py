"""GitHub: issues, comments, labels, pull requests, releases, search.

    [connectors.github]
    use = "github"              # then: duly secret set github token   (github_pat_…)

Law 1: the key of a call stands in a comment of HTML at the end of what it wrote, and lists find it.
       The search of GitHub lags behind and is never asked about a change.
Law 2: what a script writes is a text (K12): `github_text.py`.
Law 3: a 403 that speaks of a rate limit is one, also without the headers for it (K8).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote

from duly.connectors.base import Applied, Call, NotApplied, Page, Unsure, Verdict, mutation, read
from duly.connectors.conflict import Theirs
from duly.connectors.github_text import (
    MARK,
    GithubComment,
    GithubIssue,
    GithubMade,
    GithubPull,
    GithubRelease,
    body_of,
    comment_of,
    issue_of,
    pull_of,
    release_of,
    repo_path,
    title_of,
)
from duly.connectors.json_answer import pick
from duly.connectors.key_place import KeyPlace, Paging, Verify, sent_after, spell
from duly.connectors.rest import FIND_S, PAGES_MAX
from duly.connectors.status import raise_for_read
from duly.connectors.template import MISSING
from duly.connectors.token_service import TokenService, cut_page, number_at, text_at, texts_at
from duly.errors import Refused
from duly.rules.value import Json

PAGE: Final = 100
GONE: Final = 410  # what GitHub answers about an issue that was deleted
GONE_MAX: Final = 20  # numbers that are looked at by themselves
GONE_AHEAD: Final = 2  # so many beyond the last one in the list: the deleted one may be the newest
SECONDARY_S: Final = 60  # what GitHub asks for where it names no time
NUMBER_MAX: Final = 2**40
LABEL_CHARS_MAX: Final = 50
REF: Final = re.compile(r"[^\s~^:?*\[\\{}\x00-\x1f\x7f]{1,200}")
HEAD: Final = re.compile(rf"(?:[A-Za-z0-9][A-Za-z0-9-]{{0,38}}:)?{REF.pattern}")
CURSOR: Final = re.compile(r"([0-9-]{10}T[0-9:]{8}Z)(?: ([0-9]{1,5}))?")
STATES: Final = ("open", "closed", "all")
LIMIT_WORDS: Final = (b"secondary rate limit", b"abuse detection", b"API rate limit exceeded")
KEY: Final = KeyPlace("marker", "body", MARK)
HEADERS: Final[Mapping[str, str]] = MappingProxyType(
    {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
)
LINKED: Final = Paging(link=True, is_elsewhere=True)
SEARCHED: Final = Paging(items="items", link=True, is_elsewhere=True)


class Github(TokenService):
    """One account; `secret` names its token, `url` a server of your own."""

    name = "github"
    home = "https://api.github.com"
    standing = HEADERS
    busy_s = SECONDARY_S
    busy_words = LIMIT_WORDS

    # -- Reads ------------------------------------------------------------------------------------

    @read
    async def issues(
        self,
        repo: str,
        state: str = "open",
        labels: list[str] | None = None,
        after: str | None = None,
    ) -> Page[GithubIssue]:
        """List issues and pull requests, those that were changed last at the end.

        Returns a page of {number, title, text, state, user, labels, comments, is_pull, created_at,
        updated_at, url}; with `after` those that were changed since, once more the last ones.
        `state` is `open`, if it is not given, `closed` or `all`.
        """
        query: dict[str, Json] = {"state": _word("state", state, STATES), "per_page": PAGE}
        query |= {"sort": "updated", "direction": "asc"}
        if labels:
            query["labels"] = ",".join(_label(each) for each in labels)
        since, page = _read_cursor(after)
        if since:
            query |= {"since": since, "page": page}
        answer = await self.fetch(f"{repo_path(repo)}/issues", query)
        items = [issue_of(each) for each in (answer if isinstance(answer, list) else [])]
        if not items:
            return Page(items, last_cursor=after, has_more=False)
        last, is_more = items[-1]["updated_at"], len(items) == PAGE
        # More than a page of one second goes on by its number: nothing between is lost (K11).
        cursor = f"{since} {page + 1}" if is_more and last == since else last
        return Page(items, last_cursor=cursor, has_more=is_more)

    @read(by_id=True)
    async def issue(self, repo: str, number: int) -> GithubIssue | None:
        """Read one issue or pull request.

        Returns as issues do, or nothing.
        """
        answer = await self.fetch_one(f"{repo_path(repo)}/issues/{_number(number)}")
        return None if answer is None else issue_of(answer)

    @read
    async def comments(
        self, repo: str, number: int, after: str | None = None
    ) -> Page[GithubComment]:
        """List the comments of an issue or a pull request, those that were changed last at the end.

        Returns a page of {id, user, text, created_at, updated_at, url}.
        """
        query: dict[str, Json] = {"per_page": PAGE}
        if after is not None:
            query["since"] = _read_cursor(after)[0]
        path = f"{repo_path(repo)}/issues/{_number(number)}/comments"
        found = [comment_of(each) for each in await self._all(path, query)]
        found.sort(key=lambda each: (each["updated_at"], each["id"]))
        page, is_more = cut_page(found, "updated_at", after, PAGE)
        last = page[-1]["updated_at"] if page else after
        return Page(page, last_cursor=last, has_more=is_more)

    @read
    async def pulls(
        self, repo: str, state: str = "open", after: str | None = None
    ) -> Page[GithubPull]:
        """List pull requests, the oldest first.

        Returns a page of {number, title, text, state, user, head, base, is_draft, is_merged,
        created_at, url}. `state` is `open`, if it is not given, `closed` or `all`.
        """
        query: dict[str, Json] = {"state": _word("state", state, STATES), "per_page": PAGE}
        query |= {"sort": "created", "direction": "asc"}
        page = await self.list_page(f"{repo_path(repo)}/pulls", LINKED, query, after=after)
        return Page([pull_of(each) for each in page.items], **page.names)

    @read
    async def releases(self, repo: str, after: str | None = None) -> Page[GithubRelease]:
        """List releases, the newest first.

        Returns a page of {id, tag, name, text, is_draft, published_at, url}.
        """
        query: dict[str, Json] = {"per_page": PAGE}
        page = await self.list_page(f"{repo_path(repo)}/releases", LINKED, query, after=after)
        return Page([release_of(each) for each in page.items], **page.names)

    @read
    async def search(self, query: str, after: str | None = None) -> Page[GithubIssue]:
        """Search issues and pull requests in the words of GitHub: `is:open label:bug tea`.

        Returns a page as issues do. The search lags behind by seconds or minutes.
        """
        fields: dict[str, Json] = {"q": query, "per_page": PAGE}
        page = await self.list_page("/search/issues", SEARCHED, fields, after=after)
        return Page([issue_of(each) for each in page.items], **page.names)

    # -- Changes ----------------------------------------------------------------------------------

    @mutation(
        noun="issue",
        lag_s=60,
        key_in="marker",
        asked="by_search",
        deleted="unseen",
        labels={"repo": "Repository", "title": "Title", "text": "Text", "labels": "Labels"},
        editable=("title", "text"),
    )
    async def create_issue(
        self, call: Call, repo: str, title: str, text: str = "", labels: list[str] | None = None
    ) -> GithubMade:
        """Open an issue with a text; nothing in the text is read as Markdown.

        Returns {number, url}.
        """
        body: dict[str, Json] = {"title": title_of(title), "body": body_of(text)}
        if labels:
            body["labels"] = [_label(each) for each in labels]
        path = f"{repo_path(repo)}/issues"
        return self._made(call, await self.change(call, "POST", path, body=body, key=KEY))

    @create_issue.reconcile
    async def create_issue_happened(self, call: Call) -> Verdict:
        """Look through the issues that were changed since the first send."""
        path = f"{repo_path(str(call.args['repo']))}/issues"
        query = {"state": "all", "since": "{sent_after}", "per_page": str(PAGE)}
        verdict = await self._find(call, path, query)
        if isinstance(verdict, NotApplied) and (gone := await self._find_gone(call, path)):
            return Unsure(f"{gone} was deleted or moved away since, and it may have been this one")
        return verdict

    @create_issue.trial
    def create_issue_tried(self) -> Mapping[str, Json] | None:
        """Opens one issue in a repository that you name."""
        return None

    @mutation(
        noun="comment",
        lag_s=60,
        key_in="marker",
        asked="by_search",
        deleted="unseen",
        labels={"repo": "Repository", "number": "Issue", "text": "Comment"},
        editable=("text",),
    )
    async def comment(self, call: Call, repo: str, number: int, text: str) -> GithubMade:
        """Write a comment under an issue or a pull request; nothing in it is read as Markdown.

        Returns {number, url}: the id of the comment.
        """
        if not text.strip():
            raise Refused("text: a comment has a text.")
        path = f"{repo_path(repo)}/issues/{_number(number)}/comments"
        body: Json = {"body": body_of(text)}
        answer = await self.change(call, "POST", path, body=body, key=KEY)
        return self._made(call, answer, "id")

    @comment.reconcile
    async def comment_happened(self, call: Call) -> Verdict:
        """Look through the comments since the first send."""
        path = f"{repo_path(str(call.args['repo']))}/issues/{call.args['number']}/comments"
        query = {"since": "{sent_after}", "per_page": str(PAGE)}
        return await self._find(call, path, query, "id")

    @comment.trial
    def comment_tried(self) -> Mapping[str, Json] | None:
        """Writes one comment under an issue that you name."""
        return None

    @mutation(
        risk="low",
        noun="label",
        lag_s=60,
        key_in="id",
        asked="exactly",
        deleted="seen",
        labels={"repo": "Repository", "number": "Issue", "label": "Label"},
    )
    async def add_label(self, call: Call, repo: str, number: int, label: str) -> None:
        """Put a label on an issue or a pull request."""
        path = f"{repo_path(repo)}/issues/{_number(number)}/labels"
        await self.change(call, "POST", path, body={"labels": [_label(label)]})

    @add_label.reconcile
    async def add_label_happened(self, call: Call) -> Verdict:
        """Look whether the label is there; one that was taken away since is for a person."""
        path = f"{repo_path(str(call.args['repo']))}/issues/{call.args['number']}"
        label = str(call.args["label"]).lower()
        answer = await self.fetch(path, timeout_s=FIND_S, is_proof=True)
        if label in [each.lower() for each in texts_at(answer, "labels", "name")]:
            return Applied()
        try:
            events = await self._all(f"{path}/events", {"per_page": PAGE}, is_proof=True)
        except Refused as error:
            return Unsure(str(error))
        begin = f"{sent_after(call):%Y-%m-%dT%H:%M:%SZ}"
        since = [each for each in events if text_at(each, "created_at") >= begin]
        if label in [text_at(each, "label.name").lower() for each in since]:
            return Unsure("the label was there since, and was taken away")
        return NotApplied()

    @mutation(
        noun="pull request",
        lag_s=60,
        key_in="marker",
        asked="by_search",
        deleted="unseen",
        labels={"repo": "Repository", "title": "Title", "head": "From", "base": "Into"},
        editable=("title", "text"),
    )
    async def create_pull(
        self, call: Call, repo: str, title: str, head: str, base: str, text: str = ""
    ) -> GithubMade:
        """Open a pull request from one branch into another.

        Returns {number, url}.
        """
        if not HEAD.fullmatch(head) or not REF.fullmatch(base):
            raise Refused("head, base: write names of branches; head may be owner:branch.")
        body: Json = {"title": title_of(title), "head": head, "base": base, "body": body_of(text)}
        path, look = f"{repo_path(repo)}/pulls", self.create_pull_happened
        answer = await self.change(call, "POST", path, body=body, key=KEY, look=look)
        return self._made(call, answer)

    @create_pull.reconcile
    async def create_pull_happened(self, call: Call) -> Verdict:
        """Look through the pull requests of the branch, open and closed."""
        repo, head = str(call.args["repo"]), str(call.args["head"])
        whole = head if ":" in head else f"{repo.partition('/')[0]}:{head}"
        query = {"state": "all", "head": whole, "per_page": str(PAGE)}
        return await self._find(call, f"{repo_path(repo)}/pulls", query)

    @mutation(
        risk="high",
        noun="release",
        lag_s=60,
        key_in="marker",
        asked="exactly",
        deleted="unseen",
        labels={"repo": "Repository", "tag": "Tag", "title": "Title", "text": "Text"},
        editable=("title", "text"),
    )
    async def create_release(
        self, call: Call, repo: str, tag: str, title: str, text: str = ""
    ) -> GithubMade:
        """Publish a release of a tag; without the tag GitHub makes it on the default branch.

        Returns {number, url}: the id of the release.
        """
        if not REF.fullmatch(tag):
            raise Refused(f"tag: {tag[:100]!r} cannot be the name of a tag.")
        body: Json = {"tag_name": tag, "name": title_of(title), "body": body_of(text)}
        path, look = f"{repo_path(repo)}/releases", self.create_release_happened
        answer = await self.change(call, "POST", path, body=body, key=KEY, look=look, is_exact=True)
        return self._made(call, answer, "id")

    @create_release.reconcile
    async def create_release_happened(self, call: Call) -> Verdict:
        """Look whether the release of the tag has the mark of this call."""
        tag = quote(str(call.args["tag"]), safe="")
        path = f"{repo_path(str(call.args['repo']))}/releases/tags/{tag}"
        answer = await self.fetch_one(path, timeout_s=FIND_S, is_proof=True)
        if answer is None:
            return NotApplied()
        if spell(MARK, call.key) in text_at(answer, "body"):
            return Applied(_link(answer, "id"))
        if pick(answer, "tag_name") != call.args["tag"] or pick(answer, "body") is MISSING:
            return Unsure("the answer shows no release of the tag")
        return Theirs("the tag has a release without the mark of this call")

    # -- Within -----------------------------------------------------------------------------------

    def _made(self, call: Call, answer: Json, place: str = "number") -> GithubMade:
        number, url = self.made(call, answer, place, "html_url")
        return {"number": number, "url": url}

    async def _find(
        self, call: Call, path: str, query: Mapping[str, str], place: str = "number"
    ) -> Verdict:
        """Look for the mark of a call in a list, on all its pages."""
        verify = Verify(path, "body", query, "", paging=LINKED, form=MARK, is_inside=True)
        verdict = await self.find(call, verify)
        return Applied(_link(verdict.result, place)) if isinstance(verdict, Applied) else verdict

    async def _find_gone(self, call: Call, path: str) -> str:
        """Name an issue that is no longer there and has a number of the time since the send.

        Numbers are given once. GitHub says of a deleted one that it is gone, and of one that was
        moved to another repository where it is; both are in no list.
        """
        query: dict[str, Json] = {"state": "all", "sort": "created", "direction": "desc"}
        found = await self.fetch(path, query | {"per_page": PAGE}, timeout_s=FIND_S, is_proof=True)
        listed = found if isinstance(found, list) else []
        made = {number_at(each, "number"): text_at(each, "created_at") for each in listed}
        begin = f"{sent_after(call):%Y-%m-%dT%H:%M:%SZ}"
        first = min(made, default=1) - 1 if len(made) == PAGE else 0
        before = max((each for each, at in made.items() if at < begin), default=first)
        numbers = range(before + 1, max(made, default=0) + GONE_AHEAD + 1)
        missing = [each for each in numbers if each not in made]
        for each in missing[:GONE_MAX]:
            if await self._is_gone(f"{path}/{each}"):
                return f"issue {each}"
        return f"one of {len(missing)} issues" if len(missing) > GONE_MAX else ""

    async def _is_gone(self, path: str) -> bool:
        make = partial(self._request, "GET", self._at(path))
        try:
            request, response = await self._read_signed(make, FIND_S, lambda url: False)
        except Refused:
            return True  # it redirects: the issue is in another repository now
        if response.status == GONE:
            return True
        raise_for_read(response, request.shown, self.name)  # 404: never given, or no issue
        return False

    async def _all(
        self, path: str, query: Mapping[str, Json], *, is_proof: bool = False
    ) -> list[Any]:
        """Read a list to its end."""
        found: list[Any] = []
        after: str | None = None
        for _ in range(PAGES_MAX):
            limit_s = FIND_S
            items, after = await self._page(path, LINKED, query, after, limit_s, is_proof=is_proof)
            if items is None:
                raise Refused(f"GET {path}: there is no list.")
            found += items
            if after is None:
                return found
        raise Refused(f"GET {path}: there are more than {PAGES_MAX * PAGE:,}.")


def _link(found: Json, place: str) -> GithubMade:
    return {"number": number_at(found, place), "url": text_at(found, "html_url")}


def _number(number: int) -> int:
    if not 0 < number < NUMBER_MAX:
        raise Refused(f"number: {number} is no number of an issue.")
    return number


def _label(label: str) -> str:
    if not label.strip() or len(label) > LABEL_CHARS_MAX or "," in label:
        most = f"1 to {LABEL_CHARS_MAX} characters without a comma"
        raise Refused(f"label: {label[:60]!r} is none. A label has {most}.")
    return label


def _word(name: str, word: str, known: Collection[str]) -> str:
    if word not in known:
        raise Refused(f"{name}: say one of {', '.join(known)}.")
    return word


def _read_cursor(after: str | None) -> tuple[str, int]:
    if after is None:
        return "", 1
    found = CURSOR.fullmatch(after)
    if found is None:
        raise Refused(f"after is {after[:50]!r}, which is no cursor of this list.")
    return found[1], int(found[2] or 1)
