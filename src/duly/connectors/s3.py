"""Objects of one bucket, on any S3-compatible server.

    [connectors.archive]
    use = "s3"
    url = "https://s3.eu-central-1.amazonaws.com"
    bucket = "invoices"
    region = "eu-central-1"     # then: duly secret set archive access_key, and secret_key

Law 1: `put` makes an object only where none is (`If-None-Match: *`), and the key of the call is in
       the metadata of what it made. So a call is found again by asking for the object (L5), and a
       second send of it makes no second change. The trial shows first that the server keeps to
       that precondition: without it a put could replace what a person put there (K10).
Law 2: `delete` names the version by its etag. An object that is gone is deleted, one with this etag
       is not, and of any other nothing is said.
Law 3: every request is signed anew; the keys are in no URL and in no message (A5).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TypedDict, cast
from urllib.parse import quote

from duly.connectors.base import (
    TRIAL_WORKFLOW,
    Applied,
    Call,
    NotApplied,
    Page,
    Unsure,
    Verdict,
    mutation,
    read,
)
from duly.connectors.blob import BLOB_BYTES_MAX, trial_blob
from duly.connectors.clock import Timed
from duly.connectors.conflict import Theirs, find_own
from duly.connectors.mail import plain
from duly.connectors.reader import ReadingConnector, Unreadable
from duly.connectors.response import HttpResponse
from duly.connectors.rest import FIND_S, READ_S, Rest
from duly.connectors.s3_sign import S3Key, encode_query, sign
from duly.connectors.s3_text import ObjectList
from duly.connectors.status import DELETED, check_proof, raise_for_change, raise_for_read
from duly.connectors.transport import Credentials, HttpRequest, Transport
from duly.errors import ConfigError, NotSent, Refused, Transient, UnknownOutcome
from duly.rules.blob import Blob
from duly.rules.url import Url
from duly.rules.value import Json

BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
REGION: Final = re.compile(r"[a-z0-9-]{1,40}")
ETAG: Final = re.compile(r'"?([\x21\x23-\x7e]{1,200})"?')
KEY_BYTES_MAX: Final = 1024
PAGE_OBJECTS: Final = 100
PUT_S: Final = 120.0  # 25 MiB over a slow line
DELETE_MARKER: Final = "x-amz-delete-marker"  # of a bucket that keeps the versions of its objects
META: Final = "x-amz-meta-duly-key"
TWIN: Final = "duly-trial.txt"  # the object that a trial puts twice
NO_BUCKET: Final = "the bucket itself is not there"
FORBIDDEN: Final = 403
NO_MATCH: Final = 412


class StoredObject(TypedDict):
    """An object as a list returns it."""

    key: str
    size: int
    etag: str
    modified_at: str


class ObjectHead(TypedDict):
    """What is known of one object."""

    key: str
    size: int
    etag: str
    type: str


class PutObject(TypedDict):
    """The result of a put."""

    key: str
    etag: str
    size: int


class S3(ReadingConnector, Timed, Rest):
    """One bucket; `access` and `secret` name its two secrets, `prefix` is put before every key."""

    name = "s3"

    def __init__(
        self,
        url: str,
        bucket: str,
        *,
        region: str = "us-east-1",
        prefix: str = "",
        access: str = "access_key",
        secret: str = "secret_key",
        allow: Sequence[str] = (),
        ca: str | Path | None = None,
        name: str = "s3",
    ) -> None:
        self.name = name
        if not BUCKET.fullmatch(bucket):
            raise ConfigError(f"bucket: {bucket[:80]!r} cannot be the name of a bucket.")
        if not REGION.fullmatch(region):
            raise ConfigError(f"region: {region[:80]!r} cannot be the name of a region.")
        self._bucket, self._region, self._prefix = bucket, region, prefix
        self._access, self._secret = access, secret
        trusted = None if ca is None else Path(ca)
        super().__init__(url, allow=allow, ca=trusted)
        self.transport = Transport(allow=allow, ca=trusted, body_bytes_max=BLOB_BYTES_MAX)
        self._secret_names = (access, secret)
        self._tried_at: int | None = None

    @read
    async def list(self, prefix: str = "", after: str | None = None) -> Page[StoredObject]:
        """List the objects whose keys begin so, in the order of their keys.

        Returns a page of {key, size, etag, modified_at}.
        """
        fields = [("list-type", "2"), ("encoding-type", "url"), ("max-keys", str(PAGE_OBJECTS))]
        fields.append(("prefix", self._prefix + prefix))
        if after is not None:
            fields.append(("start-after", self._prefix + after))
        url = replace(self._at(f"/{self._bucket}"), query=encode_query(fields))
        response, shown = await self._ask("GET", url, READ_S)
        if not raise_for_read(response, shown, self.name):
            raise Refused(f"{shown}: there is no such bucket.")
        try:
            found = await self.in_thread(self.readers.read, "s3.list", response.body, ObjectList)
        except Unreadable as error:
            raise Refused(f"{shown}: the list cannot be read: {error}.") from None
        if found.problem is not None:
            raise Transient(f"{shown}: the list cannot be read: {found.problem}.")
        keys = [each.key for each in found.objects]
        floor = [] if after is None else [self._prefix + after]
        # A cursor is a key: without their order, objects would be left out or returned for ever.
        if sorted({*floor, *keys}) != [*floor, *keys]:
            raise Refused(f"{shown}: the server lists its objects in no order, or again.")
        cut = len(self._prefix)
        items: list[StoredObject] = [
            {
                "key": each.key[cut:],
                "size": each.size,
                "etag": each.etag,
                "modified_at": each.modified_at,
            }
            for each in found.objects
            if each.key.startswith(self._prefix)
        ]
        if found.token is not None and not items:
            raise Transient(f"{shown}: the server says that there is more, and lists nothing.")
        last = items[-1]["key"] if items else after
        return Page(items, last_cursor=last, has_more=found.token is not None)

    @read(by_id=True)
    async def head(self, key: str) -> ObjectHead | None:
        """Look at one object; nothing if there is none.

        Returns {key, size, etag, type}.
        """
        response, shown = await self._ask("HEAD", self._object(key), READ_S)
        if not raise_for_read(response, shown, self.name):
            return None
        if response.length is None:
            raise Transient(f"{shown}: the server does not say how large the object is.")
        return {
            "key": key,
            "size": response.length,
            "etag": _etag(response) or "",
            "type": plain(response.header("content-type") or "", 100),
        }

    @read(by_id=True, timeout_s=PUT_S)
    async def get(self, key: str) -> Blob | None:
        """Fetch one object as a blob; nothing if there is none.

        Returns {blob, name, type, size}.
        """
        response, shown = await self._ask("GET", self._object(key), PUT_S)
        if not raise_for_read(response, shown, self.name):
            return None
        kind = response.header("content-type") or ""
        return await self.keep_blob(response.body, name=key.rpartition("/")[2], type=kind)

    @mutation(
        noun="object",
        lag_s=60,
        timeout_s=PUT_S,
        key_in="metadata",
        asked="exactly",
        deleted="unseen",
        labels={"key": "Object", "file": "File"},
    )
    async def put(self, call: Call, key: str, file: Blob) -> PutObject:
        """Put a blob under a key where no object is yet.

        Returns {key, etag, size}.
        """
        url = self._object(key)
        data = await self.open_blob(file)
        headers = {"If-None-Match": "*", "Content-Type": file["type"], META: call.key}
        if call.workflow == TRIAL_WORKFLOW:
            await self._prove_precondition(headers, data)
        request = self._signed("PUT", url, headers, data)
        response = await self.transport.change(request, timeout_s=PUT_S)
        if response.status == NO_MATCH:
            said = f"{request.shown}: an object is there already (412)"
            made: PutObject = (await find_own(call, self.put_happened, said)).result
            return made
        raise_for_change(response, request.shown, self.name, is_alone=False)
        if key == self._trial_key():
            self._tried_at = None  # the next trial needs a place of its own
        etag = _etag(response)
        if etag is None:
            raise UnknownOutcome(f"{request.shown}: the server answered without an etag.")
        return {"key": key, "etag": etag, "size": file["size"]}

    @put.reconcile
    async def put_happened(self, call: Call) -> Verdict:
        """Look whether the object has the key of this very call."""
        key, file = str(call.args["key"]), call.args["file"]
        response, shown = await self._ask("HEAD", self._object(key), FIND_S)
        check_proof(response, shown)
        if not raise_for_read(response, shown, self.name):
            if response.header(DELETE_MARKER) == "true":
                return Unsure(f"an object at {key!r} was deleted, and it may have been this one")
            return Unsure(NO_BUCKET) if await self._is_bucket_gone() else NotApplied()
        etag, size = _etag(response), file["size"] if isinstance(file, dict) else None
        if etag is None:
            return Unsure(f"the object at {key!r} has no etag")
        if response.header(META) != call.key:
            return Theirs(f"another object is at {key!r} now")
        if response.header("content-length") != str(size):
            return Unsure(f"the object at {key!r} has another size")
        return Applied({"key": key, "etag": etag, "size": size})

    @put.trial
    def put_tried(self) -> dict[str, Json]:
        """Puts one small text object into the bucket, and looks for its key in the metadata.

        Before that it puts another one twice: the server must refuse the second.
        """
        if self._tried_at is None:
            self._tried_at = self.now_ms()
        return {"key": self._trial_key(), "file": cast("dict[str, Json]", trial_blob())}

    @mutation(
        risk="high",
        noun="object",
        lag_s=60,
        key_in="id",
        asked="exactly",
        deleted="seen",
        labels={"key": "Object", "etag": "Version"},
    )
    async def delete(self, call: Call, key: str, etag: str) -> None:
        """Delete one version of an object, named by its etag."""
        if not ETAG.fullmatch(etag):
            raise Refused("etag: give the etag that list, head or put returned.")
        # Some servers do not compare the etag when they delete, so it is compared before.
        try:
            response, shown = await self._ask("HEAD", self._object(key), READ_S)
        except Transient as error:
            raise NotSent(str(error), retry_after_s=error.retry_after_s) from error
        if not raise_for_read(response, shown, self.name):
            raise Refused(f"{shown}: there is no such object.")
        if _etag(response) != etag.strip('"'):
            raise Refused(f"{shown}: another version is there now.")
        quoted = '"' + etag.strip('"') + '"'
        request = self._signed("DELETE", self._object(key), {"If-Match": quoted}, b"")
        answer = await self.transport.change(request, timeout_s=READ_S)
        if answer.status == NO_MATCH:
            said = f"{request.shown}: the version is not there any more (412)"
            await find_own(call, self.delete_happened, said)
            return
        raise_for_change(answer, request.shown, self.name, is_alone=False, own=DELETED)
        if answer.status not in (200, 204) or answer.body:
            raise UnknownOutcome(f"{request.shown}: the server answered {answer.status}.")

    @delete.reconcile
    async def delete_happened(self, call: Call) -> Verdict:
        """Look whether the version is still there."""
        key, etag = str(call.args["key"]), str(call.args["etag"])
        response, shown = await self._ask("HEAD", self._object(key), FIND_S)
        check_proof(response, shown, is_delete=True)
        if not raise_for_read(response, shown, self.name):
            return Unsure(NO_BUCKET) if await self._is_bucket_gone() else Applied()
        if _etag(response) == etag.strip('"'):
            return NotApplied()
        return Unsure(f"another version is at {key!r} now")

    # -- Within -----------------------------------------------------------------------------------

    async def _prove_precondition(self, headers: Mapping[str, str], data: bytes) -> None:
        """Show that the server puts no object where one is; else nothing of the trial is sent."""
        request = self._signed("PUT", self._object(TWIN), headers, data)
        for _ in range(2):
            try:
                response = await self.transport.change(request, timeout_s=READ_S)
            except UnknownOutcome as error:
                raise NotSent(str(error)) from error
            if response.status == NO_MATCH:
                return
            if response.status not in (200, 201):
                raise Refused(f"{request.shown}: the server answered {response.status}.")
        raise Refused(
            f"{request.shown}: the server put it twice, so it does not keep to If-None-Match, and"
            " put could replace what is there."
        )

    async def _is_bucket_gone(self) -> bool:
        """Tell whether there is no such bucket, so that a missing object says nothing."""
        response, shown = await self._ask("HEAD", self._at(f"/{self._bucket}"), FIND_S)
        return response.status != FORBIDDEN and not raise_for_read(response, shown, self.name)

    def _relies_on(self, method: str) -> Json:
        own = [self._bucket, self._region, self._prefix, self._access, self._secret]
        own += [TWIN] if method == "put" else []  # a proof without it is none any more
        return [super()._relies_on(method), *own]

    def _trial_key(self) -> str:
        return f"duly-trial-{self._tried_at}.txt"

    def _object(self, key: str) -> Url:
        whole = self._prefix + key
        is_plain = whole.isprintable() and "//" not in whole and not whole.startswith("/")
        if not key or not is_plain or len(whole.encode()) > KEY_BYTES_MAX:
            raise Refused(f"key: {key[:80]!r} cannot be the key of an object.")
        return self._at(f"/{self._bucket}/{quote(whole, safe='/-_.~')}")

    async def _ask(self, method: str, url: Url, timeout_s: float) -> tuple[HttpResponse, str]:
        """Ask; a redirect is not followed, since the signature is for this place alone."""
        request = self._signed(method, url, {}, b"")
        response = await self.transport.read(
            request, timeout_s=timeout_s, may_ask=lambda url: False
        )
        return response, request.shown

    def _signed(
        self, method: str, url: Url, headers: Mapping[str, str], body: bytes
    ) -> HttpRequest:
        key = S3Key(self.secret(self._access), self.secret(self._secret), self._region)
        proof = sign(key, method, url, headers, body, self.now_ms())
        return HttpRequest(method, url, headers, body, Credentials(self.base.origin, proof))


def _etag(response: HttpResponse) -> str | None:
    found = ETAG.fullmatch((response.header("etag") or "").strip())
    return found[1].strip('"') if found else None
