"""The errors of a client of an API server.

    KubeError
        ConfigError             no configuration of a server, or a damaged one
        TransportError          no response: connection refused, reset, timed out, certificate not trusted
            BadResponse         a response that breaks the API's rules: no JSON, truncated
        ApiError                a response with a Status of failure
            Unauthorized        401
            Forbidden           403
            NotFound            404
            Conflict            409, the object has changed since it was read
            AlreadyExists       409, to a create
            Gone                410, a resource version or continue token too old
            Invalid             422
            TooManyRequests     429
            ServerError         500 and above

Errors of the underlying libraries are chained, never leaked.
"""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping
    from email.message import Message

_MAX_TEXT = 200
"""Maximum characters in a message of a response that is not a Status, such as a proxy's HTML page."""


class KubeError(Exception):
    """Any failure of this package."""


class ConfigError(KubeError):
    """There is no configuration of a server, or it is damaged."""


class TransportError(KubeError):
    """There was no response."""


class BadResponse(TransportError):
    """The response breaks the API's rules."""


class ApiError(KubeError):
    """The server responded with a Status of failure (apimachinery pkg/apis/meta/v1/types.go)."""

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
        """The HTTP status."""
        self.reason = reason
        """A CamelCase word such as "AlreadyExists"; empty if the response is not a Status."""
        self.message = message
        self.retry_after = retry_after
        """Seconds that the client should wait; None if the server sets no wait."""
        self.details = details or {}
        """The object and the causes by field, as in the Status."""

    @property
    def causes(self) -> frozenset[str]:
        """Return the reasons of the causes, such as "FieldValueRequired" or "ResourceVersionTooLarge"."""
        causes: list[Any] = self.details.get("causes") or []
        return frozenset(str(cause.get("reason", "")) for cause in causes)


class Unauthorized(ApiError):
    """401: missing or invalid credentials."""


class Forbidden(ApiError):
    """403: RBAC or an admission policy forbids it."""


class NotFound(ApiError):
    """404: no such object, or no such resource."""


class Conflict(ApiError):
    """409: the object has changed since it was read, or another field manager owns the field."""


class AlreadyExists(ApiError):
    """409 with the reason AlreadyExists: the object to be created exists."""


class Gone(ApiError):
    """410: the resource version or continue token is too old."""


class Invalid(ApiError):
    """422: the object is invalid."""


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
    """Return the error of a response.

    `status` is the HTTP status, or 0 for a Status in a watch event, whose own code is used. `now`, in seconds since
    1970, is subtracted from a date in Retry-After.
    """
    try:
        decoded = _STATUS.decode(body)
    except msgspec.DecodeError:
        decoded = _Status(message=bytes(body)[: 4 * _MAX_TEXT].decode(errors="replace").strip()[:_MAX_TEXT])
    code = status or decoded.code or 500
    reason = decoded.reason or ""
    kind = _BY_STATUS.get(code, ServerError if code >= 500 else ApiError)
    if kind is Conflict and reason == "AlreadyExists":
        kind = AlreadyExists
    retry_after = (headers or {}).get("Retry-After", "")
    wait = _seconds(retry_after, time.time() if now is None else now)
    if wait is None:
        wait = _retry_after_seconds(decoded.details)
    return kind(code, reason, decoded.message or "the server gave no reason", wait, decoded.details)


def _seconds(header: str, now: float) -> float | None:
    """Read Retry-After, which is seconds or a date (RFC 9110, section 10.2.3); return None if it is neither."""
    if header.strip().isdecimal():
        return float(header)
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None


def _retry_after_seconds(details: dict[str, Any] | None) -> float | None:
    wait = (details or {}).get("retryAfterSeconds")
    return float(wait) if isinstance(wait, int) and wait > 0 else None
