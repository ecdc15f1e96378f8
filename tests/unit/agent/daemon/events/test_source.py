"""One wait for files, threads and signals: a burst is one wait, an idle node wakes nothing, and no event is lost."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest

from support.kubelet_files import replace
from zonewise.daemon.events import Reason
from zonewise.daemon.events.file_watches import FileWatches, WatchRule
from zonewise.daemon.events.source import EventSource, open_event_source
from zonewise.daemon.events.uevents import Uevents
from zonewise.daemon.events.wake import Signals, Wake

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from zonewise.daemon.events.inotify import Inotify

LONG = 30.0
"""A timeout in seconds for waits that end long before it."""


@pytest.fixture
def wake() -> Iterator[Wake]:
    waker = Wake()
    yield waker
    waker.close()


@pytest.fixture
def signals() -> Iterator[Signals]:
    handlers = Signals()
    yield handlers
    handlers.close()


def rules(directory: Path) -> tuple[WatchRule, ...]:
    return (
        WatchRule(str(directory), ("cpu_manager_state", "memory_manager_state"), Reason.STATE),
        WatchRule(str(directory / "device-plugins"), ("kubelet_internal_checkpoint", "*.sock"), Reason.DEVICES),
        WatchRule(str(directory / "pod-resources"), ("kubelet.sock",), Reason.SOCKET),
    )


def test_an_idle_wait_lasts_for_its_timeout(tmp_path: Path) -> None:
    """The wait lasts for its timeout and uses hardly any CPU time."""
    with open_event_source(rules(tmp_path)) as events:
        began, used = time.monotonic(), time.thread_time()
        assert events.wait(0.2) == frozenset()
        assert time.monotonic() - began >= 0.2
        assert time.thread_time() - used < 0.1
        assert events.wait(0) == frozenset()


def test_a_wait_may_last_for_months(tmp_path: Path, wake: Wake) -> None:
    """The setting `interval` has no maximum."""
    with open_event_source(rules(tmp_path), [wake]) as events:
        timer = threading.Timer(0.1, lambda: wake(Reason.PODS))
        timer.start()
        assert events.wait(90 * 86_400.0) == {Reason.PODS}
        timer.join()


def test_events_before_the_wait_are_returned(tmp_path: Path, wake: Wake) -> None:
    """Events accumulate during a scan."""
    with open_event_source(rules(tmp_path), [wake]) as events:
        replace(tmp_path / "cpu_manager_state")
        wake(Reason.PODS)
        assert events.wait(0) == {Reason.STATE, Reason.PODS}
        assert events.wait(0) == frozenset()


def test_files_written_together_are_one_wait(tmp_path: Path) -> None:
    """The kubelet writes several files when it admits a pod; the last one does not cause another wait."""
    (tmp_path / "device-plugins").mkdir()

    def admit() -> None:
        for name in ("device-plugins/kubelet_internal_checkpoint", "cpu_manager_state", "memory_manager_state"):
            replace(tmp_path / name)

    with EventSourceOf(tmp_path, quiet=1.0, patience=LONG) as events:
        thread = threading.Thread(target=admit)
        thread.start()
        assert events.wait(LONG) == {Reason.DEVICES, Reason.STATE}
        thread.join()
        assert events.wait(0) == frozenset()


class EventSourceOf:
    """An event source with its own quiet time and maximum length of a burst."""

    def __init__(self, directory: Path, *, quiet: float, patience: float) -> None:
        self.watches = FileWatches(rules(directory))
        self.source = EventSource(self.watches, quiet=quiet, max_burst=patience)

    def __enter__(self) -> EventSource:
        return self.source

    def __exit__(self, *error: object) -> None:
        self.watches.close()


def test_the_patience_ends_an_endless_burst(tmp_path: Path) -> None:
    """A directory that changes all the time delays a scan by no more than the patience."""
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            replace(tmp_path / "cpu_manager_state")

    with EventSourceOf(tmp_path, quiet=LONG, patience=0.2) as events:
        thread = threading.Thread(target=write)
        thread.start()
        try:
            assert events.wait(LONG) == {Reason.STATE}
            began = time.monotonic()
            assert events.wait(LONG) == {Reason.STATE}
            assert 0.15 < time.monotonic() - began < LONG / 2
        finally:
            stop.set()
            thread.join()


def test_a_restart_of_the_kubelet(tmp_path: Path) -> None:
    """The kubelet clears its plugin directory and binds its sockets again; each directory may be a new one."""
    for name in ("device-plugins", "pod-resources"):
        (tmp_path / name).mkdir()
    with open_event_source(rules(tmp_path)) as events:
        for directory, reason in ((tmp_path / "device-plugins", Reason.DEVICES),
                                  (tmp_path / "pod-resources", Reason.SOCKET)):  # fmt: skip
            directory.rmdir()
            directory.mkdir()
            assert reason in events.wait(LONG)
            with socket.socket(socket.AF_UNIX) as server:
                server.bind(str(directory / "kubelet.sock"))
            assert events.wait(LONG) == {reason}


def test_other_threads_wake_it(tmp_path: Path, wake: Wake) -> None:
    """Every reason of every thread is returned, by one wait or by several."""
    expected = set(Reason) - {Reason.STOP}
    with open_event_source((), [wake]) as events:
        threads = [threading.Thread(target=wake, args=(reason,)) for reason in expected]
        for thread in threads:
            thread.start()
        received: set[Reason] = set()
        while received != expected:
            came = events.wait(LONG)
            assert came
            received |= came
        for thread in threads:
            thread.join()


def test_hardware_wakes_it() -> None:
    """Messages of the kernel wake it; a socket stands in for the kernel here."""
    sender, receiver = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with sender, receiver:
        watches = FileWatches(())
        events = EventSource(watches, [Uevents(receiver)])
        sender.send(b"offline@/devices/system/cpu/cpu1\0SUBSYSTEM=cpu\0")
        assert events.wait(LONG) == {Reason.HARDWARE}
        watches.close()


@pytest.mark.parametrize(
    ("number", "reason"),
    [(signal.SIGTERM, Reason.STOP), (signal.SIGINT, Reason.STOP), (signal.SIGHUP, Reason.RELOAD)],
)
def test_signals_wake_it(number: signal.Signals, reason: Reason, signals: Signals) -> None:
    """A signal before the wait and a signal during the wait both wake it."""
    with open_event_source((), [signals]) as events:
        os.kill(os.getpid(), number)
        assert events.wait(LONG) == {reason}
        timer = threading.Timer(0.05, os.kill, (os.getpid(), number))
        timer.start()
        assert events.wait(LONG) == {reason}
        timer.join()
        assert events.wait(0) == frozenset()


def test_signals_between_two_sources_are_not_lost(signals: Signals) -> None:
    """A reload opens a new source; a stop signal before that must not be lost."""
    with open_event_source((), [signals]):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    with open_event_source((), [signals]) as events:
        assert events.wait(LONG) == {Reason.STOP}


def test_closing_restores_the_signal_handlers() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)]
    Signals().close()
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)] == before
    assert signal.set_wakeup_fd(-1) == -1


def test_a_stop_does_not_wait_for_the_end_of_a_burst(tmp_path: Path, wake: Wake) -> None:
    watches = FileWatches(())
    events = EventSource(watches, [wake], quiet=LONG, max_burst=LONG)
    wake(Reason.STATE)
    wake(Reason.STOP)
    began = time.monotonic()
    assert events.wait(LONG) == {Reason.STATE, Reason.STOP}
    assert time.monotonic() - began < LONG / 2
    watches.close()


def test_files_without_a_kernel_watch_are_polled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The poll comes within its interval although no descriptor becomes readable; threads still wake the wait."""
    monkeypatch.setattr("zonewise.daemon.events.source.POLL_INTERVAL", 0.02)

    def fail() -> Inotify:
        raise OSError(24, "Too many open files", "inotify_init1")

    watches, wake = FileWatches(rules(tmp_path), fail), Wake()
    events = EventSource(watches, [wake])
    assert events.wait(0.05) == frozenset()
    timer = threading.Timer(0.05, replace, (tmp_path / "cpu_manager_state",))
    timer.start()
    assert events.wait(LONG) == {Reason.STATE}
    timer.join()
    wake(Reason.PODS)
    assert events.wait(LONG) == {Reason.PODS}
    wake.close()
    watches.close()
