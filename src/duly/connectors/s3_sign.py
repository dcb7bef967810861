"""Signs requests to S3-compatible servers: Signature Version 4, with the digest of the body.

Law: the signature covers the method, the path, the query, the host, the time, the digest of the
body and every header that says what is done (K4). It is made anew for each request.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final
from urllib.parse import quote

from duly.rules.url import Url

ALGORITHM: Final = "AWS4-HMAC-SHA256"
SERVICE: Final = "s3"
UNRESERVED: Final = "-_.~"


@dataclass(frozen=True, slots=True)
class S3Key:
    """Who signs: the id of a key and the key itself, for one region."""

    access_key: str
    secret_key: str = field(repr=False)
    region: str = "us-east-1"


def encode_query(fields: Iterable[tuple[str, str]]) -> str:
    """Write a query as it is signed: sorted, every other character as %XX."""
    pairs = sorted((quote(name, UNRESERVED), quote(value, UNRESERVED)) for name, value in fields)
    return "&".join(f"{name}={value}" for name, value in pairs)


def sign(
    key: S3Key, method: str, url: Url, headers: Mapping[str, str], body: bytes, now_ms: int
) -> dict[str, str]:
    """Return the headers that prove who asks: time, digest of the body, signature.

    The query of the URL must be one of `encode_query`.
    """
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    at, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    digest = sha256(body).hexdigest()
    own = {"x-amz-content-sha256": digest, "x-amz-date": at}
    signed = {name.lower(): " ".join(value.split()) for name, value in headers.items()}
    signed |= {"host": url.authority, **own}
    names = ";".join(sorted(signed))
    lines = "".join(f"{name}:{signed[name]}\n" for name in sorted(signed))
    asked = "\n".join((method, url.path, url.query, lines, names, digest))
    scope = f"{day}/{key.region}/{SERVICE}/aws4_request"
    text = "\n".join((ALGORITHM, at, scope, sha256(asked.encode()).hexdigest()))
    secret = f"AWS4{key.secret_key}".encode()
    for part in (day, key.region, SERVICE, "aws4_request"):
        secret = hmac.new(secret, part.encode(), sha256).digest()
    signature = hmac.new(secret, text.encode(), sha256).hexdigest()
    proof = f"Credential={key.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
    return {**own, "Authorization": f"{ALGORITHM} {proof}"}
