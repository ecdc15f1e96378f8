"""Reading of begin times and of the annotation for advance reservations."""

from __future__ import annotations

from typing import Any

import pytest

from zonewise_common.k8s.fields import FieldError
from zonewise_scheduler.quota.api.begin_time import (
    ADVANCE_ANNOTATION,
    BEGIN_ANNOTATION,
    read_advance_reservations,
    read_begin,
)


def _annotated(name: str, text: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {name: text}}}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1970-01-01T00:01:40Z", 100.0), ("1970-01-01T01:00:00+01:00", 0.0), ("2026-12-01T08:00:00Z", 1796112000.0)],
)
def test_a_begin_time_has_an_offset_from_utc(text: str, seconds: float) -> None:
    """The same format as that of Kubernetes' own times."""
    assert read_begin({BEGIN_ANNOTATION: text}) == seconds


def test_problems_show_the_first_80_characters() -> None:
    """A user may write a value of 256 KiB, and messages are limited."""
    shown = "x" * 80
    with pytest.raises(FieldError, match=f"not an RFC 3339 time: '{shown}'$"):
        read_begin({BEGIN_ANNOTATION: "x" * 81})
    problems: list[str] = []
    read_advance_reservations(_annotated(ADVANCE_ANNOTATION, "x" * 81), problems)
    assert problems == [f'metadata.annotations.{ADVANCE_ANNOTATION}: not "true" or "false": \'{shown}\'']


@pytest.mark.parametrize("text", ["", "tomorrow", "2026-12-01T08:00:00", "08:00", "9999999999999", "\ud800"])
def test_an_invalid_begin_time_is_an_error_and_never_none(text: str) -> None:
    """A job without a valid begin time would otherwise start at once."""
    with pytest.raises(FieldError, match="not an RFC 3339 time") as error:
        read_begin({BEGIN_ANNOTATION: text})
    assert str(error.value).startswith(f"metadata.annotations.{BEGIN_ANNOTATION}: ")


def test_an_absent_begin_time_is_zero() -> None:
    """Any start is allowed."""
    assert read_begin({}) == 0


@pytest.mark.parametrize(("text", "expected", "count"), [("true", True, 0), ("false", False, 0), ("yes", False, 1)])
def test_advance_reservations_are_true_or_false(text: str, expected: bool, count: int) -> None:
    """Any other text is reported and means false."""
    problems: list[str] = []
    assert read_advance_reservations(_annotated(ADVANCE_ANNOTATION, text), problems) is expected
    assert len(problems) == count
    assert all(ADVANCE_ANNOTATION in problem and text in problem for problem in problems)
