"""Failures of watches are logged once for each kind of failure, and so is their end."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.kube.errors import ApiError, BadResponse, Forbidden, Gone, NotFound, ServerError, TransportError
from zonewise_common.kube.watch_failures import WatchFailures

if TYPE_CHECKING:
    import pytest

REFUSED = TransportError("GET /api/v1/pods: [Errno 111] Connection refused")
LOGGER = "zonewise_common.kube.watch_failures"
AGAIN = "all watches of the API server work again"


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno > logging.DEBUG]


def test_an_outage_is_one_line_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, LOGGER)
    failures = WatchFailures()
    for _ in range(20):
        for watch in ("pods", "nodes"):
            failures.add(watch, REFUSED)
    assert lines(caplog) == [f"pods: {REFUSED}"]
    assert len(caplog.records) == 40
    failures.end("pods")
    assert len(lines(caplog)) == 1
    failures.end("nodes")
    assert lines(caplog)[1:] == [AGAIN]
    failures.end("nodes")
    failures.add("nodes", REFUSED)
    assert lines(caplog)[2:] == [f"nodes: {REFUSED}"]


def test_versions_that_are_too_old_for_all_watches_are_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """A server that restarts has none of the versions that its watches name."""
    failures = WatchFailures()
    for watch in ("pods", "nodes", "jobs"):
        failures.add(watch, Gone(410, "Expired", f"too old resource version: of {watch}"))
    assert len(lines(caplog)) == 1


def test_a_kind_that_is_not_served_lacks_its_definition(caplog: pytest.LogCaptureFixture) -> None:
    WatchFailures().add("clusterqueues", NotFound(404, "", "404 page not found"))
    [line] = lines(caplog)
    assert line.startswith("clusterqueues: 404: 404 page not found; ")
    assert "its CustomResourceDefinition is missing" in line


def test_each_kind_of_failure_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A watch that is forbidden all the time hides neither that of another kind of object nor an outage."""
    caplog.set_level(logging.INFO, LOGGER)
    failures = WatchFailures()
    forbidden = Forbidden(403, "Forbidden", "pods is forbidden")
    errors: list[tuple[str, TransportError | ApiError]] = [
        ("pods", forbidden),
        ("pods", forbidden),
        ("nodes", forbidden),
        ("jobs", REFUSED),
        ("leases", ServerError(503, "ServiceUnavailable", "starts")),
        ("jobs", BadResponse("damaged")),
        ("leases", BadResponse("damaged")),
    ]
    for watch, error in errors:
        failures.add(watch, error)
    assert lines(caplog) == [f"{watch}: {error}" for i, (watch, error) in enumerate(errors) if i != 1]
    for watch in ("jobs", "leases"):
        failures.end(watch)
    failures.add("jobs", REFUSED)
    assert lines(caplog)[-1] == f"jobs: {REFUSED}"


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["refused", "end"])), max_size=30))
def test_lines_alternate_between_an_outage_and_its_end(steps: list[tuple[str, str]]) -> None:
    """However many watches there are, the last line states whether any fails."""
    records: list[str] = []
    handler = logging.Handler(logging.INFO)
    handler.emit = lambda record: records.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger(LOGGER)
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.INFO)
    try:
        failures, failing = WatchFailures(), set[str]()
        for watch, step in steps:
            if step == "end":
                failures.end(watch)
                failing.discard(watch)
            else:
                failures.add(watch, REFUSED)
                failing.add(watch)
            assert bool(records and records[-1] != AGAIN) == bool(failing)
        assert all((line == AGAIN) == bool(i % 2) for i, line in enumerate(records))
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
