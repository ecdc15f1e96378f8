"""The publishing thread: the newest value is published, failures are retried, and nothing is sent twice."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from support.waiting import PATIENCE
from zonewise.publish.worker import PublishWorker
from zonewise_common.kube.backoff import Backoff
from zonewise_common.kube.errors import ApiError, Forbidden, NotFound, TooManyRequests, TransportError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

QUICK = Backoff(base=0.001, cap=0.002)


class Sink:
    """A sink that records published values, and fails or waits on demand."""

    def __init__(self) -> None:
        self.done: list[int] = []
        self.errors: list[Exception] = []
        self.failures: list[Exception] = []
        self.entered = threading.Event()
        self.gate = threading.Event()
        self.gate.set()

    def publish(self, value: int) -> None:
        self.entered.set()
        assert self.gate.wait(PATIENCE)
        if self.errors:
            raise self.errors.pop(0)
        self.done.append(value)


@pytest.fixture
def sink() -> Sink:
    return Sink()


@pytest.fixture
def start(sink: Sink) -> Iterator[Callable[[], PublishWorker[int]]]:
    started: list[PublishWorker[int]] = []

    def make() -> PublishWorker[int]:
        worker = PublishWorker("number", sink.publish, sink.failures.append, backoff=QUICK, draw=lambda: 0.0)
        worker.start()
        started.append(worker)
        return worker

    yield make
    sink.gate.set()
    for worker in started:
        worker.close()


def test_a_submitted_value_is_published(sink: Sink, start: Callable[[], PublishWorker[int]]) -> None:
    """One value is published once; then the worker is idle."""
    worker = start()
    worker.submit(1)
    assert worker.wait_idle(PATIENCE)
    assert sink.done == [1]


def test_the_newest_value_is_published(sink: Sink, start: Callable[[], PublishWorker[int]]) -> None:
    """Values that are superseded during a publish are never sent."""
    sink.gate.clear()
    worker = start()
    worker.submit(1)
    assert sink.entered.wait(PATIENCE)
    for value in range(2, 50):
        worker.submit(value)
    assert not worker.idle()
    sink.gate.set()
    assert worker.wait_idle(PATIENCE)
    assert sink.done == [1, 49]


@pytest.mark.parametrize(
    "error", [TransportError("refused"), TooManyRequests(429, "TooManyRequests", "slow", 0.001), RuntimeError("ours")]
)
def test_failures_are_retried(sink: Sink, start: Callable[[], PublishWorker[int]], error: Exception) -> None:
    """A value is retried until it succeeds, and each failure is reported."""
    sink.errors = [error, error]
    worker = start()
    worker.submit(7)
    assert worker.wait_idle(PATIENCE)
    assert (sink.done, sink.failures) == ([7], [error, error])


def test_an_outage_is_logged_once(
    sink: Sink, start: Callable[[], PublishWorker[int]], caplog: pytest.LogCaptureFixture
) -> None:
    """A failure is logged when it appears, when its reason changes, and when it ends."""
    sink.errors = [TransportError(reason) for reason in ("refused", "refused", "refused", "reset", "reset")]
    with caplog.at_level("INFO", "zonewise"):
        worker = start()
        worker.submit(7)
        assert worker.wait_idle(PATIENCE)
    assert [(record.levelname, record.getMessage().rpartition(": ")[2]) for record in caplog.records] == [
        ("WARNING", "refused"),
        ("WARNING", "reset"),
        ("INFO", "the number is published again, after 5 failures"),
    ]


def test_a_newer_value_replaces_one_that_failed(sink: Sink, start: Callable[[], PublishWorker[int]]) -> None:
    """After a failure, the newest value is tried, not the one that failed."""
    sink.errors = [TransportError("refused")]
    sink.gate.clear()
    worker = start()
    worker.submit(1)
    assert sink.entered.wait(PATIENCE)
    worker.submit(2)
    sink.gate.set()
    assert worker.wait_idle(PATIENCE)
    assert sink.done == [2]


def test_the_newest_value_is_published_again(sink: Sink, start: Callable[[], PublishWorker[int]]) -> None:
    """A value is repeated on request; without any value, nothing is repeated."""
    worker = start()
    worker.repeat()
    assert worker.wait_idle(PATIENCE)
    assert sink.done == []
    for value in (1, 2):
        worker.submit(value)
        assert worker.wait_idle(PATIENCE)
    worker.repeat()
    assert worker.wait_idle(PATIENCE)
    assert sink.done == [1, 2, 2]


def test_a_kind_that_is_not_served_is_awaited_with_short_pauses() -> None:
    """A replaced CRD is back within seconds, but the backoff for other failures may be hours."""
    failures: list[Exception] = [NotFound(404, "NotFound", "no such kind") for _ in range(4)]
    done = threading.Event()

    def publish(_: int) -> None:
        if failures:
            raise failures.pop()
        done.set()

    worker = PublishWorker("number", publish, lambda error: None, backoff=Backoff(base=1e4, cap=1e4), draw=lambda: 0.0)
    worker.start()
    worker.submit(1)
    assert done.wait(PATIENCE)
    worker.close()


def test_closing_interrupts_waiting() -> None:
    """A worker that waits for an unavailable server stops at once."""
    failed = threading.Event()

    def fail(value: int) -> None:
        raise TransportError("refused")

    worker = PublishWorker("number", fail, lambda error: failed.set(), backoff=Backoff(base=1000, cap=1000))
    worker.start()
    worker.submit(1)
    assert failed.wait(PATIENCE)
    worker.close()
    assert not any(thread.name == "publish-number" for thread in threading.enumerate())


@pytest.mark.parametrize(("error", "is_refusal"), [(Forbidden, True), (ApiError, False)])
def test_a_forbidden_write_is_logged_with_the_missing_component(
    sink: Sink, caplog: pytest.LogCaptureFixture, error: type[ApiError], is_refusal: bool
) -> None:
    sink.errors = [error(403 if is_refusal else 500, "R", "no")]
    worker = PublishWorker("number", sink.publish, sink.failures.append, backoff=QUICK, advice="components/a does")
    worker.start()
    worker.submit(1)
    assert worker.wait_idle(PATIENCE)
    worker.close()
    [record] = [one for one in caplog.records if "cannot publish" in one.message]
    assert ("components/a does" in record.message) is is_refusal
