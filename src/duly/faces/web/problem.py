"""Errors over HTTP: RFC 9457 problems with the code, the subject and what to do (G15).

Law 1  The code is the same word as on the command line and on the socket. The status is made from
       the class of the error, or from its code where the class is too coarse.
Law 2  No sentence stands here: an error has its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec
from starlette.responses import Response

from duly.api.wire import write_error
from duly.errors import (
    ConfigError,
    ConnectorError,
    DulyError,
    Fenced,
    Invalid,
    NotDeployed,
    NotFound,
    RequestRefused,
    ScriptError,
    Stale,
    StoreError,
    StoreUnavailable,
)

MEDIA_TYPE: Final = "application/problem+json"
TYPE: Final = "urn:duly:error:"  # docs/errors.md lists the codes

BY_CODE: Final[Mapping[str, int]] = {
    "not_signed_in": HTTPStatus.UNAUTHORIZED,
    "token_over": HTTPStatus.UNAUTHORIZED,
    "hook_refused": HTTPStatus.UNAUTHORIZED,
    "hook_key_refused": HTTPStatus.UNAUTHORIZED,
    "link_over": HTTPStatus.FORBIDDEN,
    "beyond_scope": HTTPStatus.FORBIDDEN,
    "cross_origin": HTTPStatus.FORBIDDEN,
    "distrusted": HTTPStatus.FORBIDDEN,  # a script that others could have written
    "no_page": HTTPStatus.NOT_FOUND,
    "wrong_method": HTTPStatus.METHOD_NOT_ALLOWED,
    "body_late": HTTPStatus.REQUEST_TIMEOUT,
    "head_too_long": HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    "body_too_long": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "wrong_media_type": HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    "wrong_host": HTTPStatus.MISDIRECTED_REQUEST,
    "too_fast": HTTPStatus.TOO_MANY_REQUESTS,
    "too_many": HTTPStatus.TOO_MANY_REQUESTS,
    "unanswered": HTTPStatus.TOO_MANY_REQUESTS,
    "act_unheard": HTTPStatus.GATEWAY_TIMEOUT,  # whether it was done is not known
    "commit_unknown": HTTPStatus.GATEWAY_TIMEOUT,  # as before
}
BY_CLASS: Final[tuple[tuple[type[DulyError], int], ...]] = (
    (NotFound, HTTPStatus.NOT_FOUND),
    (NotDeployed, HTTPStatus.UNPROCESSABLE_ENTITY),
    (ScriptError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (RequestRefused, HTTPStatus.CONFLICT),
    (Stale, HTTPStatus.CONFLICT),
    (Fenced, HTTPStatus.CONFLICT),
    (StoreUnavailable, HTTPStatus.SERVICE_UNAVAILABLE),
    (ConfigError, HTTPStatus.INTERNAL_SERVER_ERROR),
    (StoreError, HTTPStatus.SERVICE_UNAVAILABLE),
    (ConnectorError, HTTPStatus.BAD_GATEWAY),
)


def status_of(error: DulyError) -> int:
    """Return the status of an error."""
    if isinstance(error, Invalid):
        return HTTPStatus.BAD_REQUEST
    by_class = (status for kind, status in BY_CLASS if isinstance(error, kind))
    return BY_CODE.get(error.code) or next(by_class, HTTPStatus.INTERNAL_SERVER_ERROR)


def problem(error: DulyError, **more: Any) -> Response:
    """Make the response of an error; `more` are members that belong to this one."""
    status = status_of(error)
    written = write_error(error)
    detail = written.pop("message")
    body = {
        "type": f"{TYPE}{error.code}",
        "title": HTTPStatus(status).phrase,
        "status": int(status),
        "detail": detail,
        **written,
        **more,
    }
    headers = {"WWW-Authenticate": "Bearer"} if status == HTTPStatus.UNAUTHORIZED else None
    return Response(msgspec.json.encode(body), int(status), headers, MEDIA_TYPE)
