"""GitHub's REST API on loopback, as https://docs.github.com/en/rest describes it (2022-11-28).

Served are issues, comments, labels, events, pull requests, releases and the search of issues, with
pages by the header `Link`, whose path names the repository by its number as GitHub's does. Fields
that GitHub does not know, bodies of more than 65,536 characters and titles of more than 256 are
rejected with 422.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlencode

from duly.testing.doubles.base import Rejected, ServiceAsk, ServiceDouble, ServiceReply, route
from duly.testing.doubles.moment import write_moment
from duly.testing.doubles.shape import TextOf, needed

REPO: Final = "ada/tea"
BRANCHES: Final = frozenset({"main", "fix", "fix2"})
BODY: Final = TextOf(65_536)
TITLE: Final = needed(TextOf(256))
ISSUE: Final = {"title": TITLE, "body": BODY, "labels": [TextOf(50)], "assignees": [str]}
COMMENT: Final = {"body": needed(BODY)}
LABELS: Final = {"labels": needed([TextOf(50)])}
PULL: Final = {
    "title": TITLE,
    "body": BODY,
    "head": needed(str),
    "base": needed(str),
    "draft": bool,
}
RELEASE: Final = {
    "tag_name": needed(str),
    "name": str,
    "body": TextOf(125_000),
    "target_commitish": str,
    "draft": bool,
    "prerelease": bool,
}
PAGED: Final = ("per_page", "page", "sort", "direction", "since")
# How GitHub spells what the base of all doubles rejects.
SAID: Final = {
    "unauthorized": (401, "Bad credentials"),
    "insufficient_scope": (403, "Resource not accessible by personal access token"),
    "unsupported_media_type": (415, "Unsupported Media Type"),
    "invalid_json": (400, "Problems parsing JSON"),
    "not_found": (404, "Not Found"),
    "deleted": (410, "This issue was deleted"),
    "method_not_allowed": (404, "Not Found"),
}
CODES: Final = {"tag_taken": "already_exists", "exists": "custom"}  # in a 422, by what is wrong


class GithubDouble(ServiceDouble):
    """One repository, ada/tea, for each token."""

    page_max = 100

    def new_account(self) -> dict[str, Any]:
        """Return a repository in which nothing was opened."""
        kept: dict[str, Any] = {"issues": [], "comments": [], "releases": [], "events": []}
        return {**kept, "gone": [], "moved": [], "changes": 0}

    def effects(self, account: dict[str, Any]) -> int:
        """Count what was opened, written, labelled and published."""
        return int(account["changes"])

    def rejection(self, rejected: Rejected) -> ServiceReply:
        """Spell a refusal as GitHub does."""
        status, message = SAID.get(rejected.reason, (422, "Validation Failed"))
        said = {"message": message, "documentation_url": "https://docs.github.com/rest"}
        if status == 422:
            code = CODES.get(rejected.reason, rejected.reason)
            said["errors"] = [{"code": code, "message": rejected.message}]  # type: ignore[assignment]
        return ServiceReply(said, status)

    def open(self, account: str, title: str, at: str = "", **more: Any) -> int:
        """Let a person open an issue; return its number."""
        return int(self._put(self.account(account), title, at or now(), **more)["number"])

    def take_away(self, account: str, number: int, *, is_moved: bool = False) -> None:
        """Let a person delete an issue, or move it to another repository; its number is spent."""
        kept = self.account(account)
        kept["issues"] = [each for each in kept["issues"] if each["number"] != number]
        kept["moved" if is_moved else "gone"].append(number)

    # -- Issues -----------------------------------------------------------------------------------

    @route("POST", "/repos/{owner}/{name}/issues", scopes=("issues:write",), query=())
    def create_issue(self, ask: ServiceAsk, owner: str, name: str) -> ServiceReply:
        """Open an issue."""
        _check_repo(owner, name)
        body = self.json_of(ask, ISSUE)
        made = self._put(ask.account, body["title"], now(), body=body.get("body"))
        made["labels"] = [{"name": each} for each in body.get("labels", [])]
        ask.account["changes"] += 1
        return ServiceReply(made, 201)

    @route(
        "GET",
        "/repos/{owner}/{name}/issues",
        scopes=("issues:read", "issues:write"),
        query=(*PAGED, "state", "labels", "creator"),
    )
    def issues(self, ask: ServiceAsk, owner: str, name: str) -> ServiceReply:
        """List issues and pull requests."""
        _check_repo(owner, name)
        wanted = set(filter(None, ask.query.get("labels", "").split(",")))
        found = [
            each
            for each in ask.account["issues"]
            if _is_state(ask, each) and wanted <= {label["name"] for label in each["labels"]}
        ]
        return self._page(ask, found, "updated_at")

    @route("GET", "/repos/{owner}/{name}/issues/{number}", scopes=("issues:read", "issues:write"))
    def issue(self, ask: ServiceAsk, owner: str, name: str, number: str) -> ServiceReply:
        """Show one issue; one that was moved is shown where it is now."""
        if number in map(str, ask.account["moved"]):
            place = f"http://{ask.headers['host']}/repositories/7/issues/{number}"
            return ServiceReply({"message": "Moved Permanently"}, 301, {"Location": place})
        return ServiceReply(self._issue(ask, owner, name, number))

    @route("POST", "/repos/{owner}/{name}/issues/{number}/comments", scopes=("issues:write",))
    def comment(self, ask: ServiceAsk, owner: str, name: str, number: str) -> ServiceReply:
        """Write a comment."""
        issue = self._issue(ask, owner, name, number)
        body = self.json_of(ask, COMMENT)
        made = self._write(ask.account, issue["number"], body["body"], now())
        ask.account["changes"] += 1
        return ServiceReply(made, 201)

    @route(
        "GET",
        "/repos/{owner}/{name}/issues/{number}/comments",
        scopes=("issues:read", "issues:write"),
        query=("per_page", "page", "since"),
    )
    def comments(self, ask: ServiceAsk, owner: str, name: str, number: str) -> ServiceReply:
        """List the comments of an issue in the order of their ids."""
        issue = self._issue(ask, owner, name, number)
        found = [each for each in ask.account["comments"] if each["issue"] == issue["number"]]
        return self._page(ask, found)

    @route("POST", "/repos/{owner}/{name}/issues/{number}/labels", scopes=("issues:write",))
    def label(self, ask: ServiceAsk, owner: str, name: str, number: str) -> ServiceReply:
        """Put labels on an issue; one that is there already changes nothing."""
        issue = self._issue(ask, owner, name, number)
        for each in self.json_of(ask, LABELS)["labels"]:
            if each not in [label["name"] for label in issue["labels"]]:
                issue["labels"].append({"name": each})
                event = {"event": "labeled", "label": {"name": each}, "created_at": now()}
                ask.account["events"].append({**event, "issue": issue["number"]})
                ask.account["changes"] += 1
        return ServiceReply(issue["labels"])

    @route(
        "GET",
        "/repos/{owner}/{name}/issues/{number}/events",
        scopes=("issues:read", "issues:write"),
        query=("per_page", "page"),
    )
    def events(self, ask: ServiceAsk, owner: str, name: str, number: str) -> ServiceReply:
        """List what was done with an issue."""
        issue = self._issue(ask, owner, name, number)
        found = [each for each in ask.account["events"] if each["issue"] == issue["number"]]
        return self._page(ask, found)

    @route("GET", "/search/issues", query=("q", "per_page", "page", "sort", "order"))
    def search(self, ask: ServiceAsk) -> ServiceReply:
        """Search the titles."""
        word = ask.query["q"].split()[-1]
        found = [each for each in ask.account["issues"] if word in each["title"]]
        return self._page(ask, found, wrap=lambda page: {"total_count": len(found), "items": page})

    # -- Pull requests and releases ---------------------------------------------------------------

    @route("POST", "/repos/{owner}/{name}/pulls", scopes=("pulls:write",), query=())
    def create_pull(self, ask: ServiceAsk, owner: str, name: str) -> ServiceReply:
        """Open a pull request; there is one for two branches."""
        _check_repo(owner, name)
        body = self.json_of(ask, PULL)
        head = body["head"].rpartition(":")[2]
        if head not in BRANCHES or body["base"] not in BRANCHES:
            raise Rejected(422, "invalid", "head: invalid")
        pulls = [each for each in ask.account["issues"] if "pull_request" in each]
        if any(each["head"]["ref"] == head and each["state"] == "open" for each in pulls):
            raise Rejected(422, "exists", f"A pull request already exists for ada:{head}.")
        made = self._put(ask.account, body["title"], now(), body=body.get("body"))
        made |= {"head": {"ref": head}, "base": {"ref": body["base"]}, "pull_request": {}}
        made |= {"draft": body.get("draft", False), "merged_at": None}
        ask.account["changes"] += 1
        return ServiceReply(made, 201)

    @route(
        "GET",
        "/repos/{owner}/{name}/pulls",
        scopes=("pulls:read", "pulls:write"),
        query=("per_page", "page", "sort", "direction", "state", "head", "base"),
    )
    def pulls(self, ask: ServiceAsk, owner: str, name: str) -> ServiceReply:
        """List pull requests."""
        _check_repo(owner, name)
        head = ask.query.get("head", "").rpartition(":")[2]
        found = [
            each
            for each in ask.account["issues"]
            if "pull_request" in each and _is_state(ask, each) and head in ("", each["head"]["ref"])
        ]
        return self._page(ask, found)

    @route("POST", "/repos/{owner}/{name}/releases", scopes=("contents:write",), query=())
    def create_release(self, ask: ServiceAsk, owner: str, name: str) -> ServiceReply:
        """Publish a release; a tag has one."""
        _check_repo(owner, name)
        body = self.json_of(ask, RELEASE)
        if any(each["tag_name"] == body["tag_name"] for each in ask.account["releases"]):
            raise Rejected(422, "tag_taken", "tag_name already_exists")
        made = {"id": len(ask.account["releases"]) + 1, **body, "published_at": now()}
        made |= {"html_url": f"https://github.com/{REPO}/releases/{made['id']}"}
        ask.account["releases"].append(made)
        ask.account["changes"] += 1
        return ServiceReply(made, 201)

    @route("GET", "/repos/{owner}/{name}/releases", query=("per_page", "page"))
    def releases(self, ask: ServiceAsk, owner: str, name: str) -> ServiceReply:
        """List releases, the newest first."""
        _check_repo(owner, name)
        return self._page(ask, ask.account["releases"][::-1])

    @route("GET", "/repos/{owner}/{name}/releases/tags/{tag}")
    def release(self, ask: ServiceAsk, owner: str, name: str, tag: str) -> ServiceReply:
        """Show the release of a tag."""
        _check_repo(owner, name)
        found = [each for each in ask.account["releases"] if each["tag_name"] == tag]
        if not found:
            raise Rejected(404, "not_found")
        return ServiceReply(found[0])

    # -- Within -----------------------------------------------------------------------------------

    def _issue(self, ask: ServiceAsk, owner: str, name: str, number: str) -> dict[str, Any]:
        _check_repo(owner, name)
        found = [each for each in ask.account["issues"] if str(each["number"]) == number]
        if number in map(str, ask.account["gone"]):
            raise Rejected(410, "deleted")
        if not found:
            raise Rejected(404, "not_found")
        issue: dict[str, Any] = found[0]
        return issue

    def _put(self, account: dict[str, Any], title: str, at: str, **more: Any) -> dict[str, Any]:
        number = 1 + sum(len(account[each]) for each in ("issues", "gone", "moved"))
        made = {"number": number, "title": title, "body": "", "state": "open", "labels": []}
        made |= {"user": {"login": "ada"}, "comments": 0, "created_at": at, "updated_at": at}
        made |= {"html_url": f"https://github.com/{REPO}/issues/{number}", **more}
        account["issues"].append(made)
        return made

    def _write(self, account: dict[str, Any], issue: int, body: str, at: str) -> dict[str, Any]:
        number = len(account["comments"]) + 1
        made = {"id": number, "issue": issue, "body": body, "user": {"login": "ada"}}
        made |= {"created_at": at, "updated_at": at}
        made["html_url"] = f"https://github.com/{REPO}/issues/{issue}#issuecomment-{number}"
        account["comments"].append(made)
        for each in account["issues"]:
            if each["number"] == issue:
                each["comments"] += 1
                each["updated_at"] = max(at, str(each["updated_at"]))
        return made

    def _page(
        self,
        ask: ServiceAsk,
        found: list[dict[str, Any]],
        order: str = "",
        wrap: Callable[[list[Any]], Any] = lambda page: page,
    ) -> ServiceReply:
        since = ask.query.get("since", "")
        chosen = [each for each in found if each.get("updated_at", "z") >= since]
        if order and ask.query.get("sort") == "updated":
            chosen.sort(key=lambda each: str(each[order]))
        if order and ask.query.get("direction", "desc") == "desc":
            chosen.reverse()
        size = min(int(ask.query.get("per_page", 30)), self.page_max)
        number = int(ask.query.get("page", 1))
        page = chosen[(number - 1) * size : number * size]
        if number * size >= len(chosen):
            return ServiceReply(wrap(page))
        rest = ask.path.removeprefix(f"/repos/{REPO}")
        path = ask.path if rest == ask.path else f"/repositories/1300192{rest}"
        query = urlencode({**ask.query, "page": number + 1})
        link = f'<http://{ask.headers["host"]}{path}?{query}>; rel="next"'
        return ServiceReply(wrap(page), headers={"Link": link})


def now() -> str:
    """Return the moment as GitHub writes it."""
    return write_moment("%Y-%m-%dT%H:%M:%SZ")


def _check_repo(owner: str, name: str) -> None:
    if f"{owner}/{name}" != REPO:
        raise Rejected(404, "not_found")


def _is_state(ask: ServiceAsk, issue: dict[str, Any]) -> bool:
    return ask.query.get("state", "open") in ("all", issue["state"])
