"""Error responses as the package's exceptions: by status and reason, with everything that the server sent."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.kube_faults import failure
from zonewise_common.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
    error_from_status,
)

NOON = 1_792_756_800.0  # 2026-10-23T12:00:00Z


@pytest.mark.parametrize(
    ("status", "reason", "kind"),
    [
        (400, "BadRequest", ApiError),
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (405, "MethodNotAllowed", ApiError),
        (409, "AlreadyExists", AlreadyExists),
        (409, "Conflict", Conflict),
        (410, "Expired", Gone),
        (410, "Gone", Gone),
        (415, "UnsupportedMediaType", ApiError),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", TooManyRequests),
        (500, "InternalError", ServerError),
        (503, "ServiceUnavailable", ServerError),
        (504, "Timeout", ServerError),
    ],
)
def test_every_status_has_its_error(status: int, reason: str, kind: type[ApiError]) -> None:
    """The table in apimachinery pkg/api/errors/errors.go."""
    error = error_from_status(json.dumps(failure(status, reason, "because")).encode(), status)
    assert type(error) is kind
    assert (error.status, error.reason, error.message) == (status, reason, "because")
    assert str(error) == f"{status} {reason}: because"


def test_details() -> None:
    """The error has the name of the object and the reasons of the causes."""
    causes = [{"reason": "FieldValueRequired", "field": "zones", "message": "Required value"}]
    error = error_from_status(json.dumps(failure(422, "Invalid", name="node-1", causes=causes)).encode(), 422)
    assert error.details["name"] == "node-1"
    assert error.causes == {"FieldValueRequired"}


@pytest.mark.parametrize(
    ("retry_after", "seconds"),
    [
        ("7", 7.0),
        (" 120 ", 120.0),
        ("0", 0.0),
        ("Fri, 23 Oct 2026 12:00:30 GMT", 30.0),
        ("Fri, 23 Oct 2026 11:00:00 GMT", 0.0),
        ("-5", None),
        ("soon", None),
        ("", None),
        ("Fri, 99 Oct 2026 99:00:30 GMT", None),
    ],
)
def test_retry_after(retry_after: str, seconds: float | None) -> None:
    """Both seconds and dates are accepted; invalid values are ignored."""
    error = error_from_status(b"{}", 429, {"Retry-After": retry_after}, now=NOON)
    assert error.retry_after == (None if seconds is None else pytest.approx(seconds))


def test_retry_after_in_the_status() -> None:
    """An event of a watch has no headers, so its Status has the time."""
    error = error_from_status(json.dumps(failure(429, "TooManyRequests", retryAfterSeconds=3)).encode())
    assert isinstance(error, TooManyRequests)
    assert error.retry_after == 3.0


def test_no_status_at_all() -> None:
    """For a page of a proxy, the message has the beginning of the page."""
    error = error_from_status(b"<html>Bad Gateway</html>" + b"x" * 10_000, 502)
    assert isinstance(error, ServerError)
    assert str(error).startswith("502: <html>Bad Gateway")
    assert len(str(error)) < 250


@given(st.binary(max_size=200), st.integers(300, 599), st.text(max_size=20))
def test_any_response_is_an_error_of_this_package(body: bytes, status: int, retry_after: str) -> None:
    """Constructing the error never fails, whatever the response."""
    error = error_from_status(body, status, {"Retry-After": retry_after})
    assert error.status == status
    assert error.message
