"""Files of Google Drive: listed, read as blobs, and made.

    [connectors.drive]
    use = "drive"
    client_id = "123-abc.apps.googleusercontent.com"
    only_own = true         # sees the files that Duly made, and no others

Law 1: a file carries the mark of its call in a property that only this application sees
       (`appProperties`), and is found again by it (L5). A file in the bin was made.
Law 2: with `only_own` no scope is asked for that sees other files (K9).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypedDict

from duly.connectors.base import Applied, Call, NotApplied, Page, Unsure, Verdict, mutation, read
from duly.connectors.blob import BLOB_BYTES_MAX
from duly.connectors.google import CLIENT_NEED, SCOPE, Google, list_at, made, mark_of, text_at
from duly.connectors.json_answer import pick
from duly.connectors.rest import Paging
from duly.connectors.status import raise_for_read
from duly.errors import Refused
from duly.rules.blob import Blob
from duly.rules.value import Json

FILES: Final = Paging(items="files", cursor="nextPageToken", parameter="pageToken")
FIELDS: Final = "id,name,mimeType,size,modifiedTime,parents,webViewLink,trashed,appProperties"
PAGE_FILES: Final = 100
UPLOAD_BYTES_MAX: Final = 5 * 1024 * 1024  # Google's own limit for a file with its description
TEXT_CHARS_MAX: Final = 1_000_000
NAME_CHARS_MAX: Final = 255
UPLOAD: Final = "/upload/drive/v3/files"
UPLOAD_S: Final = 120.0
MARK: Final = "duly"
ID: Final = re.compile(r"[A-Za-z0-9_-]{1,200}")
TYPE: Final = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,100}/[A-Za-z0-9!#$&^_.+-]{1,100}")
# What is written with Google's own programs has no bytes; it is exported.
EXPORTS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "application/vnd.google-apps.document": ("text/plain", ".txt"),
        "application/vnd.google-apps.spreadsheet": ("text/csv", ".csv"),
        "application/vnd.google-apps.presentation": ("application/pdf", ".pdf"),
        "application/vnd.google-apps.drawing": ("application/pdf", ".pdf"),
    }
)


class DriveFile(TypedDict):
    """A file as a list returns it; `size` is 0 for what Google's own programs write."""

    id: str
    name: str
    type: str
    size: int
    modified_at: str
    folder: str
    link: str


class MadeFile(TypedDict):
    """The result of a create."""

    id: str
    name: str


class Drive(Google):
    """The files of one account; `folder` is where new ones go, if a call names no other."""

    name = "drive"
    home = "https://www.googleapis.com"
    base_path = "/drive/v3"
    scopes = MappingProxyType({"read": ("drive.readonly",), "create": ("drive.file",)})
    needs = (CLIENT_NEED,)

    def __init__(
        self,
        client_id: str,
        *,
        folder: str = "",
        only_own: bool = False,
        url: str = "",
        secret: str = "sign_in",
        client_secret: str = "client_secret",
        allow: Sequence[str] = (),
        ca: str | Path | None = None,
        name: str = "drive",
    ) -> None:
        self._only_own, self._folder = only_own, folder
        super().__init__(
            client_id,
            url=url,
            secret=secret,
            client_secret=client_secret,
            allow=allow,
            ca=ca,
            name=name,
            body_bytes_max=BLOB_BYTES_MAX,
        )

    def scopes_of(self) -> Mapping[str, tuple[str, ...]]:
        """Return the scopes of each capability: reads need less where only own files are seen."""
        own = {"read": (f"{SCOPE}drive.file",)} if self._only_own else {}
        return MappingProxyType({**super().scopes_of(), **own})

    @read
    async def list(
        self, folder: str = "", name: str = "", after: str | None = None
    ) -> Page[DriveFile]:
        """List files and folders, those that changed last first; of one folder, or of one name.

        A folder has the type `application/vnd.google-apps.folder`. Returns a page of {id, name,
        type, size, modified_at, folder, link}.
        """
        self.require("read")
        terms = ["trashed = false"]
        if folder or self._folder:
            terms.append(f"'{_id(folder or self._folder)}' in parents")
        if name:
            terms.append(f"name = {_quoted(_name(name))}")
        query: dict[str, Json] = {
            "q": " and ".join(terms),
            "orderBy": "modifiedTime desc",
            "pageSize": str(PAGE_FILES),
            "fields": f"nextPageToken,files({FIELDS})",
        }
        found = await self.list_page("/files", FILES, query, after=after)
        return Page([_file(each) for each in found.items], **found.names)

    @read(by_id=True, timeout_s=UPLOAD_S)
    async def read(self, id: str) -> Blob | None:  # noqa: A002  # as every other connector
        """Fetch one file as a blob; nothing if there is none.

        A document of Google's own is fetched as plain text, a spreadsheet as CSV, slides as PDF.
        Returns {blob, name, type, size}.
        """
        self.require("read")
        about = await self.fetch_one(f"/files/{_id(id)}", {"fields": FIELDS})
        if about is None:
            return None
        kind, name = text_at(about, "mimeType"), text_at(about, "name")
        path, query = f"/files/{_id(id)}", {"alt": "media"}
        if kind in EXPORTS:
            kind, ending = EXPORTS[kind]
            path, query, name = f"{path}/export", {"mimeType": kind}, f"{name}{ending}"
        elif kind.startswith("application/vnd.google-apps."):
            raise Refused(f"{id}: a file of the type {kind} has no contents to fetch.")
        response = await self._get(path, [*query.items()], UPLOAD_S)
        if response is None:
            return None
        raise_for_read(response, f"GET {self._at(path).shown}", self.name)
        return await self.keep_blob(response.body, name=name, type=kind)

    @mutation(
        noun="file",
        lag_s=120,
        timeout_s=UPLOAD_S,
        key_in="metadata",
        asked="by_search",
        deleted="unseen",
        labels={"name": "Name", "folder": "Folder", "text": "Text", "file": "File"},
        editable=("name", "text"),
    )
    async def create(
        self,
        call: Call,
        name: str,
        folder: str = "",
        text: str = "",
        file: Blob | None = None,
    ) -> MadeFile:
        """Make a file of a blob, or of a text.

        Returns {id, name}.
        """
        self.require("create")
        if file is not None and text:
            raise Refused("text: give a text or a file, not both.")
        data, kind = text.encode(), "text/plain"
        if len(text) > TEXT_CHARS_MAX:
            raise Refused(f"text: at most {TEXT_CHARS_MAX:,} characters are written.")
        if file is not None:
            if file["size"] > UPLOAD_BYTES_MAX:
                raise Refused(f"file: at most {UPLOAD_BYTES_MAX:,} bytes are uploaded.")
            data, kind = await self.open_blob(file), file["type"]
        if not TYPE.fullmatch(kind):
            kind = "application/octet-stream"
        about: dict[str, Any] = {
            "name": _name(name),
            "appProperties": {MARK: mark_of(call.key)},
        }
        if folder or self._folder:
            about["parents"] = [_id(folder or self._folder)]
        content_type, body = _related(about, kind, data, mark_of(call.key))
        answer = await self.change_at(
            call,
            "POST",
            "/files",
            body,
            query={"uploadType": "multipart", "fields": "id,name"},
            headers={"Content-Type": content_type},
            origin_path=f"{self._upload_base()}{UPLOAD}",
            timeout_s=UPLOAD_S,
        )
        return {"id": made(call, answer), "name": text_at(answer, "name")}

    @create.reconcile
    async def create_happened(self, call: Call) -> Verdict:
        """Look for the file with the mark of this very call, also in the bin."""
        mark = mark_of(call.key)
        query: dict[str, Json] = {
            "q": f"appProperties has {{ key='{MARK}' and value='{mark}' }}",
            "fields": f"nextPageToken,incompleteSearch,files({FIELDS})",
        }
        found = await self.look("/files", query)
        files = list_at(found, "files")
        for each in files:
            if pick(each, f"appProperties.{MARK}") == mark:
                return Applied({"id": text_at(each, "id"), "name": text_at(each, "name")})
        is_whole = isinstance(found, dict) and isinstance(found.get("files"), type(files))
        if not is_whole or files or found.get("incompleteSearch") or found.get("nextPageToken"):
            return Unsure("the search was not complete")
        return NotApplied()

    @create.trial
    def create_tried(self) -> dict[str, Json]:
        """Makes one small file, and looks for it by its property."""
        return {"name": "duly-trial.txt", "text": "Duly made this file to find it again."}

    def _upload_base(self) -> str:
        """Return the path before the base, where the service is not at the root of its place."""
        return self.base.path.removesuffix(self.base_path)

    def _relies_on(self, method: str) -> Json:
        return [str(self.base), self._only_own]


def _related(about: Mapping[str, Any], kind: str, data: bytes, mark: str) -> tuple[str, bytes]:
    """Write a file and its description as one body; the boundary is in neither of them."""
    said = json.dumps(about).encode()
    boundary = f"duly-{mark}"
    while boundary.encode() in data or boundary.encode() in said:
        boundary += "-"
    parts = [
        f"--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n".encode(),
        said,
        f"\r\n--{boundary}\r\nContent-Type: {kind}\r\n\r\n".encode(),
        data,
        f"\r\n--{boundary}--\r\n".encode(),
    ]
    return f"multipart/related; boundary={boundary}", b"".join(parts)


def _file(found: Any) -> DriveFile:
    size = text_at(found, "size")
    parents = list_at(found, "parents")
    return {
        "id": text_at(found, "id"),
        "name": text_at(found, "name"),
        "type": text_at(found, "mimeType"),
        "size": int(size) if size.isdecimal() and len(size) < 20 else 0,
        "modified_at": text_at(found, "modifiedTime"),
        "folder": parents[0] if parents and isinstance(parents[0], str) else "",
        "link": text_at(found, "webViewLink"),
    }


def _id(own: str) -> str:
    if not ID.fullmatch(own):
        raise Refused(f"{own[:80]!r} is no id of a file or folder. Take it from a list.")
    return own


def _name(name: str) -> str:
    if not name.strip() or len(name) > NAME_CHARS_MAX or not name.isprintable():
        raise Refused(f"name: a file has a name of 1 to {NAME_CHARS_MAX} characters on one line.")
    return name


def _quoted(text: str) -> str:
    """Write a text for a search: it never becomes a term of it (K12)."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
