"""What can go wrong between us and an API server.

    KubeError
        ConfigError             nothing says how to reach a server, or what says it is damaged
        TransportError          no answer came: refused, reset, timed out, certificate not trusted
            BadAnswer           an answer came that is not what the API promises: no JSON, cut short
        ApiError                the server answered no
            Unauthorized        401
            Forbidden           403
            NotFound            404
            Conflict            409, the object has changed meanwhile
            AlreadyExists       409, to a create
            Gone                410, a resource version or continue token too old
            Invalid             422
            TooManyRequests     429
            ServerError         500 and above

Errors of the libraries below are chained, never leaked.
"""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping
    from email.message import Message

_MOST_TEXT = 200
"""Characters of an answer that is no Status (a proxy's HTML page) that go into a message."""


class KubeError(Exception):
    """Any failure of this package."""


class ConfigError(KubeError):
    """Nothing says how to reach a server, or what says it is damaged."""


class TransportError(KubeError):
    """No answer came."""


class BadResponse(TransportError):
    """An answer came that is not what the API promises."""


class ApiError(KubeError):
    """The server answered no, with a Status (apimachinery pkg/apis/meta/v1/types.go)."""

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        retry_after: float | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(f"{status} {reason}: {message}" if reason else f"{status}: {message}")
        self.status = status
        """The HTTP status code."""
        self.reason = reason
        """A CamelCase word such as "AlreadyExists"; empty where the answer is no Status."""
        self.message = message
        self.retry_after = retry_after
        """Seconds after which the server wants to be asked again; None where it says nothing."""
        self.details = details or {}
        """Which object, and causes field by field, as in the Status."""

    @property
    def causes(self) -> frozenset[str]:
        """Return the reasons of the causes, such as "FieldValueRequired" or "ResourceVersionTooLarge"."""
        found: list[Any] = self.details.get("causes") or []
        return frozenset(str(cause.get("reason", "")) for cause in found)


class Unauthorized(ApiError):
    """401: no or no valid credentials."""


class Forbidden(ApiError):
    """403: RBAC or an admission policy refuses."""


class NotFound(ApiError):
    """404: no such object, or no such resource."""


class Conflict(ApiError):
    """409: the object has changed since it was read, or another field manager owns the field."""


class AlreadyExists(ApiError):
    """409 with the reason AlreadyExists: the object to create is there."""


class Gone(ApiError):
    """410: the resource version or continue token is too old to go on from."""


class Invalid(ApiError):
    """422: the object is not valid."""


class TooManyRequests(ApiError):
    """429: the server sheds load, or an eviction is not allowed now."""


class ServerError(ApiError):
    """500 and above."""


_BY_STATUS: dict[int, type[ApiError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}


class _Status(msgspec.Struct):
    message: str | None = None
    reason: str | None = None
    code: int | None = None
    details: dict[str, Any] | None = None


_STATUS = msgspec.json.Decoder(_Status)


def error_from_status(
    body: bytes | msgspec.Raw,
    status: int = 0,
    headers: Mapping[str, str] | Message | None = None,
    *,
    now: float | None = None,
) -> ApiError:
    """Return the error that an answer means.

    `status` is the answer's HTTP status; 0 where the Status came as an event of a watch, and its own code counts.
    `now` is the time in seconds since 1970 that a date in Retry-After is compared with.
    """
    try:
        said = _STATUS.decode(body)
    except msgspec.DecodeError:
        said = _Status(message=bytes(body)[: 4 * _MOST_TEXT].decode(errors="replace").strip()[:_MOST_TEXT])
    code = status or said.code or 500
    reason = said.reason or ""
    kind = _BY_STATUS.get(code, ServerError if code >= 500 else ApiError)
    if kind is Conflict and reason == "AlreadyExists":
        kind = AlreadyExists
    told = (headers or {}).get("Retry-After", "")
    wait = _seconds(told, time.time() if now is None else now)
    if wait is None:
        wait = _retry_after_seconds(said.details)
    return kind(code, reason, said.message or "the server gives no reason", wait, said.details)


def _seconds(told: str, now: float) -> float | None:
    """Read Retry-After, which is seconds or a date (RFC 9110, section 10.2.3); None where it is neither."""
    if told.strip().isdecimal():
        return float(told)
    try:
        return max(0.0, parsedate_to_datetime(told).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None


def _retry_after_seconds(details: dict[str, Any] | None) -> float | None:
    wait = (details or {}).get("retryAfterSeconds")
    return float(wait) if isinstance(wait, int) and wait > 0 else None
