"""Objects on a real S3 server: made once, found by the key, fetched as blobs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import duly
from duly.connectors import S3
from duly.connectors.base import Applied, Call, NotApplied, Unsure, Verdict
from duly.connectors.blob import MemoryBlobs, using_blobs
from duly.connectors.registry import Registry
from duly.connectors.s3_sign import S3Key, encode_query, sign
from duly.connectors.s3_text import ObjectList, read_list
from duly.connectors.transport import HttpRequest
from duly.errors import ConfigError, NotSent, Refused, Transient, UnknownOutcome
from duly.rules.url import read_url
from duly.testing import WEB_REPLIES, ExamFailed, examine_network
from tests.connectors.object_server import BUCKET, HOST, SECRETS, ObjectServer
from tests.connectors.shop import Shop, raw
from tests.connectors.twice import Twice

pytestmark = pytest.mark.anyio

PDF = b"%PDF-1.7 " + bytes(range(256))


class Plain:
    """Reads in this process; how the locked one reads is tried elsewhere."""

    def read(self, reader: str, data: bytes, kind: type[ObjectList]) -> ObjectList:
        return read_list(data)


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectServer]:
    with ObjectServer() as made:
        yield made


@pytest.fixture
def blobs() -> Iterator[MemoryBlobs]:
    made = MemoryBlobs()
    with using_blobs(made):
        yield made


def make_call(**args: Any) -> Call:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return Call("s3.put", args, key="call-1", workflow="w", attempt=1, sent_at=at)


def call(blobs: MemoryBlobs, key: str = "2026/ä b+c.pdf", **more: Any) -> Call:
    return replace(make_call(key=key, file=blobs.put(PDF, "a.pdf", "application/pdf")), **more)


async def put(s3: Any, made: Call) -> Any:
    return await s3.put(made, **made.args)


async def test_an_object_is_put_listed_looked_at_and_fetched(
    server: ObjectServer, blobs: MemoryBlobs
) -> None:
    """K15: from a blob to an object and back, with the type that the blob has."""
    s3 = server.connect("round/")
    made = await put(s3, call(blobs))
    assert (made["key"], made["size"]) == ("2026/ä b+c.pdf", len(PDF))
    assert await s3.head("2026/ä b+c.pdf") == {
        "key": "2026/ä b+c.pdf",
        "size": len(PDF),
        "etag": made["etag"],
        "type": "application/pdf",
    }
    found = await s3.get("2026/ä b+c.pdf")
    assert (found["name"], found["type"]) == ("ä b+c.pdf", "application/pdf")
    assert blobs.kept[found["blob"]] == PDF
    (listed,) = (await s3.list("2026/")).items
    assert (listed["key"], listed["size"], listed["etag"]) == (
        "2026/ä b+c.pdf",
        len(PDF),
        made["etag"],
    )
    assert (await s3.list("2027/")).items == []
    assert (await s3.head("none"), await s3.get("none")) == (None, None)


async def test_a_list_goes_on_behind_its_last_key(
    server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K11: pages are cut by keys, so nothing is left out and nothing comes twice."""
    monkeypatch.setattr("duly.connectors.s3.PAGE_OBJECTS", 2)
    for number in range(5):
        server.ask("PUT", f"/{BUCKET}/pages/{number}", b"x")
    s3, after, found = server.connect("pages/"), None, []
    for _ in range(4):
        page = await s3.list("", after)
        found += [each["key"] for each in page.items]
        after = page.names["last_cursor"]
        if not page.names["has_more"]:
            break
    assert found == ["0", "1", "2", "3", "4"]


async def test_what_is_there_is_not_replaced(server: ObjectServer, blobs: MemoryBlobs) -> None:
    """L4, L5: another object under the key refuses the call, and is never taken for it."""
    server.ask("PUT", f"/{BUCKET}/there/a", b"a person's")
    s3 = server.connect("there/")
    with pytest.raises(Refused, match="412"):
        await put(s3, call(blobs, "a"))
    assert server.ask("GET", f"/{BUCKET}/there/a") == b"a person's"
    assert isinstance(await s3.put_happened(call(blobs, "a")), Unsure)


async def test_an_object_that_a_person_deleted_is_left_to_a_person(
    server: ObjectServer, blobs: MemoryBlobs
) -> None:
    """L6: a bucket that keeps versions tells what was deleted from what was never there."""
    s3, made = server.connect("kept/"), call(blobs, "a")
    state = b"<VersioningConfiguration><Status>%s</Status></VersioningConfiguration>"
    server.ask("PUT", f"/{BUCKET}?versioning", state % b"Enabled")
    try:
        assert await s3.put_happened(made) == NotApplied()
        await put(s3, made)
        server.ask("DELETE", f"/{BUCKET}/kept/a")
        assert isinstance(await s3.put_happened(made), Unsure)
    finally:
        server.ask("PUT", f"/{BUCKET}?versioning", state % b"Suspended")


async def test_a_second_send_changes_nothing_and_is_found(
    server: ObjectServer, blobs: MemoryBlobs
) -> None:
    """L5, L7: the precondition stops it, and the metadata says whose object it is."""
    s3, made = server.connect("twice/"), call(blobs, "a")
    assert await s3.put_happened(made) == NotApplied()
    answer = await put(s3, made)
    assert await put(s3, replace(made, attempt=2)) == answer
    with pytest.raises(Refused, match="412"):
        await put(s3, replace(made, key="another"))
    assert await s3.put_happened(made) == Applied(answer)
    assert isinstance(await s3.put_happened(replace(made, key="another")), Unsure)


async def test_a_request_that_a_proxy_repeats_is_done_once_and_not_refused(
    server: ObjectServer, blobs: MemoryBlobs
) -> None:
    """L4: the second request meets what the first one made; refused, it would be made anew."""
    s3, made = server.connect("proxy/"), call(blobs, "a")
    s3.transport = Twice(allow=[HOST])
    answer = await put(s3, made)
    assert (answer["key"], server.keys("proxy/")) == ("a", ["proxy/a"])
    with pytest.raises(Refused, match="412"):
        await put(s3, replace(made, key="another"))


@pytest.mark.parametrize(
    ("keys", "after", "is_cut"),
    [
        (["b", "a"], None, False),
        (["a", "a"], None, False),
        (["a", "b"], "a", False),
        (["a"], "b", True),
        ([], "b", True),
    ],
)
async def test_a_list_that_repeats_or_has_no_order_is_not_gone_on_with(
    tmp_path: Path, keys: list[str], after: str | None, is_cut: bool
) -> None:
    """K11: a cursor is a key, so such a list would leave objects out or never end."""
    listed = "".join(f"<Contents><Key>{each}</Key></Contents>" for each in keys)
    more = f"<IsTruncated>{str(is_cut).lower()}</IsTruncated>"
    body = f"<ListBucketResult>{listed}{more}</ListBucketResult>"
    with Shop(tmp_path) as shop:
        made: Any = S3(f"http://{HOST}:{shop.port}", BUCKET, allow=[HOST])
        made._vault = lambda connector, name: SECRETS[name]
        made._readers = Plain()
        shop.next(raw(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()))
        with pytest.raises((Refused, Transient)):
            await made.list("", after)


def test_a_space_in_a_listed_key_is_written_as_a_plus_sign() -> None:
    """K11: as AWS writes keys in the encoding that is asked for; a plus sign itself is %2B."""
    found = read_list(
        b"<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>a+b%2Bc%20d</Key>"
        b"</Contents></ListBucketResult>"
    )
    assert [each.key for each in found.objects] == ["a b+c d"]


def test_its_secrets_are_asked_for_and_its_bucket_is_what_a_proof_is_about() -> None:
    """K10, A5: `duly connect` asks for both keys; another bucket voids the proof."""
    one, other = (S3("https://s3.example.com", name) for name in ("one", "two"))
    assert Registry([one]).secrets_of("s3") == ("access_key", "secret_key")
    assert one._relies_on("put") != other._relies_on("put")


async def test_a_put_is_proven_by_one_object_of_its_own(
    server: ObjectServer, tmp_path: Path
) -> None:
    """K10: a trial has a blob of its own, is found by its metadata, and can be made again."""
    s3 = server.connect("trial/")
    async with duly.Host(f"sqlite:///{tmp_path}/duly.db", connectors=[s3]) as host:
        for name, value in SECRETS.items():
            await host.set_secret("s3", name, value)
        for number in (1, 2):
            assert (await host.prove("s3.put")).answering.is_believed
            assert len(server.keys("trial/")) == number + 1
    assert "trial/duly-trial.txt" in server.keys("trial/")


async def test_a_server_that_puts_one_object_over_another_is_not_proven(
    server: ObjectServer, tmp_path: Path
) -> None:
    """K10: without the precondition a put could replace what a person put there."""
    s3 = server.connect("careless/")
    async with duly.Host(f"sqlite:///{tmp_path}/duly.db", connectors=[s3]) as host:
        for name, value in SECRETS.items():
            await host.set_secret("s3", name, value)
        found = await host.prove("s3.put")
    assert not found.answering.is_believed
    assert "does not keep to If-None-Match" in str(found)
    assert server.keys("careless/") == ["careless/duly-trial.txt"]


async def test_a_bucket_that_is_gone_says_nothing_of_its_objects(
    server: ObjectServer, blobs: MemoryBlobs
) -> None:
    """L5: 404 is no yes to a delete, and no no to a put, where the bucket itself is missing."""
    s3 = server.connect("a/")
    remove = make_call(key="a", etag="0" * 32)
    assert await s3.delete_happened(remove) == Applied()
    assert await s3.put_happened(call(blobs, "a")) == NotApplied()
    s3._bucket = "elsewhere"
    for verdict in (await s3.delete_happened(remove), await s3.put_happened(call(blobs, "a"))):
        assert isinstance(verdict, Unsure)
        assert "bucket" in verdict.reason


async def test_a_delete_names_its_version(server: ObjectServer, blobs: MemoryBlobs) -> None:
    """L5: a version that is not the one that was named stays."""
    s3 = server.connect("gone/")
    made = await put(s3, call(blobs, "a"))
    remove = make_call(key="a", etag=made["etag"])
    assert await s3.delete_happened(remove) == NotApplied()
    with pytest.raises(Refused, match="another version"):
        await s3.delete(remove, key="a", etag="0" * 32)
    assert isinstance(await s3.delete_happened(make_call(key="a", etag="0" * 32)), Unsure)
    await s3.delete(remove, **remove.args)
    assert (server.keys("gone/"), await s3.delete_happened(remove)) == ([], Applied())
    with pytest.raises(Refused, match="no such object"):
        await s3.delete(remove, **remove.args)


@pytest.mark.parametrize("key", ["", "/a", "a//b", "a\nb", "../a", "a" * 1025, "\ud800"])
async def test_a_key_that_cannot_be_one_is_refused(
    server: ObjectServer, blobs: MemoryBlobs, key: str
) -> None:
    """K3: before anything is sent."""
    with pytest.raises((Refused, UnicodeEncodeError)):
        await server.connect().head(key)


def test_settings_are_checked() -> None:
    """K14: a bucket and a region are names."""
    for wrong in ({"bucket": "A_B"}, {"bucket": "invoices", "region": "EU 1"}):
        with pytest.raises(ConfigError):
            S3("https://s3.example.com", **wrong)


async def test_no_key_is_shown(server: ObjectServer, blobs: MemoryBlobs) -> None:
    """A5: neither in a message nor in what a request shows."""
    s3 = server.connect("hidden/")
    request = s3._signed("PUT", s3._object("a"), {}, b"x")
    assert isinstance(request, HttpRequest)
    said = f"{request.shown} {request!r}"
    with pytest.raises(Refused) as caught:
        await put(server.connect(), call(blobs, "/a"))
    assert not [each for each in SECRETS.values() if each in said + str(caught.value)]


# -- The signature --------------------------------------------------------------------------------


def test_the_signature_is_that_of_the_documentation() -> None:
    """K4: the example of the service's own pages."""
    key = S3Key("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
    at_ms = int(datetime(2013, 5, 24, tzinfo=UTC).timestamp() * 1000)
    url = read_url("https://examplebucket.s3.amazonaws.com/test.txt")
    made = sign(key, "GET", url, {"Range": "bytes=0-9"}, b"", at_ms)
    wanted = "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
    assert made["Authorization"].endswith(f"Signature={wanted}")


@pytest.mark.parametrize(
    ("method", "path", "fields", "body"),
    [
        ("GET", "/b", [("list-type", "2"), ("prefix", "a b/ä+&"), ("start-after", "")], b""),
        ("PUT", "/b/2026/%C3%A4%20b%2Bc.pdf", [], PDF),
    ],
)
def test_the_signature_is_that_of_another_signer(
    method: str, path: str, fields: Any, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K4: the vendor's own library signs the same request in the same way."""
    at = datetime(2026, 5, 1, 12, tzinfo=UTC)
    url = replace(read_url(f"http://127.0.0.1:9000{path}"), query=encode_query(fields))
    headers = {"If-None-Match": "*", "x-amz-meta-duly-key": "k1"} if body else {}
    key = S3Key(SECRETS["access_key"], SECRETS["secret_key"], "eu-central-1")
    ours = sign(key, method, url, headers, body, int(at.timestamp() * 1000))
    auth, credentials, requests = (
        import_module(f"botocore.{each}") for each in ("auth", "credentials", "awsrequest")
    )
    theirs = requests.AWSRequest(method, f"{url.origin}{url.target}", headers=headers, data=body)
    signer = auth.S3SigV4Auth(credentials.Credentials(*SECRETS.values()), "s3", "eu-central-1")
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: at)
    theirs.context["payload_signing_enabled"] = True
    signer.add_auth(theirs)
    assert ours["Authorization"] == theirs.headers["Authorization"]


# -- Lists of strangers ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"<!DOCTYPE a [<!ENTITY b 'c'>]><ListBucketResult/>", "document type"),
        (b"<Error><Code>x</Code></Error>", "no list"),
        (
            b"<ListBucketResult><Contents><Key>a</Key><Size>x</Size></Contents></ListBucketResult>",
            "malformed",
        ),
        (b"<ListBucketResult>" + b"<a>" * 200, "nested deeper"),
        (b"\x00", "malformed"),
    ],
)
def test_a_list_that_is_none(data: bytes, said: str) -> None:
    """K7: XML of strangers has no entities, no depth without end, and may be anything."""
    found = read_list(data)
    assert found == ObjectList(problem=found.problem)
    assert said in str(found.problem)


# -- The exam -------------------------------------------------------------------------------------


def examined(server: ObjectServer, folder: Path, kind: Any, *, cuts: bool = True) -> Any:
    blobs = MemoryBlobs()
    args: dict[str, Any] = {"key": "a.pdf", "file": blobs.put(PDF, "a.pdf")}
    with using_blobs(blobs):
        return examine_network(
            lambda here, port: server.connect(f"{folder.name}/{here.name}/", port, kind),
            "put",
            args,
            other_args={**args, "key": "b.pdf"},
            server=(HOST, server.port),
            effects=lambda here: len(server.keys(f"{folder.name}/{here.name}/")),
            folder=folder,
            replies=WEB_REPLIES if cuts else (),
        )


def test_a_put_passes_the_exam(server: ObjectServer, tmp_path: Path) -> None:
    """L4, L5, K2: every fault of the network, and every status."""
    report = examined(server, tmp_path, S3)
    assert report.points > 30
    lost = "the last bytes of the answer are lost: it said unknown, it was done, reconcile said"
    assert f"{lost} Applied." in str(report)


class Hasty(S3):
    """Puts without a precondition, under a name of its own each time."""

    async def put(self, call: Call, key: str, file: Any) -> Any:
        return await S3.put.function(self, call, f"{call.attempt}-{key}", file)


class Sure(S3):
    """Takes any object at the place for its own."""

    async def put_happened(self, call: Call) -> Verdict:
        found = await self.head(str(call.args["key"]))
        return Applied() if found else NotApplied()

    async def put(self, call: Call, key: str, file: Any) -> Any:
        try:
            return await S3.put.function(self, call, key, file)
        except UnknownOutcome as error:
            raise NotSent(str(error)) from error


class Blind(S3):
    """Says of everything that it did not happen."""

    async def put_happened(self, call: Call) -> Verdict:
        return NotApplied()


BROKEN: dict[Any, str] = {
    Hasty: "there were 2 changes|and it was done",
    Sure: "it said not sent",
    Blind: "reconcile said NotApplied, and it was done",
}


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_a_connector_that_is_wrong_fails_the_exam(
    kind: Any, server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L4, L5: each for its own reason."""
    monkeypatch.setattr("duly.testing.network.CUTS", 1)
    monkeypatch.setattr("duly.testing.network.PATIENCE_S", 0.2)
    with pytest.raises(ExamFailed, match=BROKEN[kind]):
        examined(server, tmp_path, kind, cuts=False)


def test_a_delete_passes_the_exam(server: ObjectServer, tmp_path: Path) -> None:
    """L4, L5: its look at the version goes by, so that the faults meet the delete itself."""

    class Direct(S3):
        async def _ask(self, method: str, url: Any, timeout_s: float) -> Any:
            here = server.connect()
            return await here._ask(method, replace(url, port=server.port), timeout_s)

    def reach(here: Path, port: int, kind: Any = Direct) -> Any:
        prefix = f"{tmp_path.name}-d/{here.name}/"
        made = here / "made"
        if not made.exists():
            for key in ("a", "b"):
                server.ask("PUT", f"/{BUCKET}/{prefix}{key}", b"x")
            made.touch()
        return server.connect(prefix, port, kind)

    etag = "9dd4e461268c8034f5c8564e155c67a6"  # of "x"
    report = examine_network(
        reach,
        "delete",
        {"key": "a", "etag": etag},
        other_args={"key": "b", "etag": etag},
        server=(HOST, server.port),
        effects=lambda here: 2 - len(server.keys(f"{tmp_path.name}-d/{here.name}/")),
        folder=tmp_path,
        replies=WEB_REPLIES,
        asking=partial(reach, kind=S3),
    )
    assert report.points > 30


def test_a_put_says_where_its_key_travels() -> None:
    """K1: in the metadata of the object, and it can be asked exactly."""
    tool = Registry([S3("https://s3.example.com", "invoices")]).catalog.find("s3.put")
    assert (tool.key_in, tool.reconciles) == ("metadata", True)
    assert duly.Blob.__name__ == "Blob"
