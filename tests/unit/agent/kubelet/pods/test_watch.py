"""The watch of the kubelet's pods, against a server on a real socket."""

from __future__ import annotations

import contextlib
import logging
import time
from typing import TYPE_CHECKING

from support.kubelets import decode_pod_event, pod, short_directory, simulated
from support.waiting import PATIENCE, eventually
from zonewise.kubelet.pods.watch import PodWatch
from zonewise_sandbox.kubelet.grpc_server import serve

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    import pytest


@contextlib.contextmanager
def watching(socket: Path, on_event: Callable[[bytes], object]) -> Generator[PodWatch]:
    """Run a watch that retries soon."""
    watch = PodWatch(str(socket), on_event, first_pause=0.02, longest_pause=0.1)
    watch.start()
    try:
        yield watch
    finally:
        watch.stop()


def test_events() -> None:
    """The watch reports the existing pods, the end of that list, and then each added, changed and removed pod."""
    events: list[bytes] = []
    with simulated(pods_api=True) as kubelet:
        kubelet.start(pod("a"))
        with watching(kubelet.pods_socket, events.append):
            eventually(lambda: len(events) == 2)
            kubelet.start(pod("b"))
            kubelet.stop("uid-a")
            eventually(lambda: len(events) == 5)
    assert [decode_pod_event(event) for event in events] == [
        ("ADDED", "a"),
        ("INITIAL_SYNC_COMPLETE", ""),
        ("ADDED", "b"),
        ("MODIFIED", "b"),
        ("DELETED", "a"),
    ]


def test_a_restart_sends_all_pods_again() -> None:
    """After a restart, the kubelet sends all pods again."""
    events: list[bytes] = []
    with simulated(pods_api=True) as kubelet, watching(kubelet.pods_socket, events.append):
        eventually(lambda: len(events) == 1)
        kubelet.restart()
        eventually(lambda: len(events) == 2)
    assert {decode_pod_event(event) for event in events} == {("INITIAL_SYNC_COMPLETE", "")}


def test_a_socket_that_is_created_later(caplog: pytest.LogCaptureFixture) -> None:
    """The watch waits for the socket and logs this once, however often it retries."""
    events: list[bytes] = []
    with caplog.at_level(logging.DEBUG, "zonewise"), simulated(pods_api=True) as kubelet:
        kubelet.close()
        with watching(kubelet.pods_socket, events.append):
            eventually(lambda: len(caplog.records) >= 4)
            kubelet.serve()
            eventually(lambda: len(events) == 1)
    assert "will retry" in caplog.text
    assert {record.levelno for record in caplog.records[1:]} == {logging.DEBUG}
    assert caplog.records[0].levelno == logging.INFO


def test_a_kubelet_without_the_api(caplog: pytest.LogCaptureFixture) -> None:
    """A socket without the method is treated like no socket."""
    with caplog.at_level(logging.INFO), short_directory() as directory:
        server = serve(directory / "p.sock", "v1alpha1.Pods", {})
        try:
            with watching(directory / "p.sock", lambda _: None):
                eventually(lambda: "UNIMPLEMENTED" in caplog.text)
        finally:
            server.stop(None).wait()


def test_stopping_is_prompt() -> None:
    """A watch stops at once while it waits for events, while it waits for a retry, and before it was started."""
    with simulated(pods_api=True) as kubelet, short_directory() as directory:
        for socket in (kubelet.pods_socket, directory / "none.sock"):
            watch = PodWatch(str(socket), lambda _: None, first_pause=60)
            watch.start()
            begun = time.monotonic()
            watch.stop()
            assert time.monotonic() - begun < PATIENCE / 2
        PodWatch(str(kubelet.pods_socket), lambda _: None).stop()


def test_a_callback_may_stop_the_watch() -> None:
    """The callback runs in the watch's own thread, which cannot wait for itself."""
    events: list[bytes] = []

    def stop(event: bytes) -> None:
        events.append(event)
        watch.stop()

    with simulated(pods_api=True) as kubelet:
        kubelet.start(pod("a"))
        with watching(kubelet.pods_socket, stop) as watch:
            eventually(lambda: bool(events))
    assert len(events) == 1


def test_a_callback_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    """The error is logged, and the watch starts again."""
    calls: list[bytes] = []

    def fail_once(event: bytes) -> None:
        calls.append(event)
        if len(calls) == 1:
            raise ValueError("no luck")

    with simulated(pods_api=True) as kubelet, watching(kubelet.pods_socket, fail_once):
        eventually(lambda: len(calls) == 2)
    assert "no luck" in caplog.text
