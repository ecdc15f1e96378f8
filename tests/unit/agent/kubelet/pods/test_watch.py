"""The watch of pods against a server on a real socket."""

from __future__ import annotations

import contextlib
import logging
import time
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from support.kubelets import pod, short_directory, simulated
from support.waiting import PATIENCE, eventually
from zonewise.kubelet.pods.v1alpha1 import pods_pb2 as pb
from zonewise.kubelet.pods.watch import PodEvent, PodEventType, PodWatch, WatchedPod, decode_event
from zonewise_sandbox.kubelet.grpc_server import serve

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    import pytest

WHOLE = WatchedPod("lab", "a", "uid-a", {"app": "a"}, "Running")
DELETED = WatchedPod("lab", "a", "uid-a", {}, "")


@contextlib.contextmanager
def watching(socket: Path, on_event: Callable[[PodEvent], None]) -> Generator[PodWatch]:
    """A watch that retries soon."""
    watch = PodWatch(str(socket), on_event, first_pause=0.02, longest_pause=0.1)
    watch.start()
    try:
        yield watch
    finally:
        watch.stop()


def test_events() -> None:
    """What is there, that it is all, and then what comes, changes and goes."""
    events: list[PodEvent] = []
    with simulated(pods_api=True) as kubelet:
        kubelet.start(pod("a"))
        with watching(kubelet.pods_socket, events.append):
            eventually(lambda: len(events) == 2)
            kubelet.start(pod("b"))
            kubelet.stop("uid-a")
            eventually(lambda: len(events) == 5)
    assert events[:2] == [PodEvent(PodEventType.ADDED, WHOLE), PodEvent(PodEventType.SYNCED, None)]
    assert [(event.type, event.pod and event.pod.phase) for event in events[2:4]] == [
        (PodEventType.ADDED, "Pending"),
        (PodEventType.MODIFIED, "Running"),
    ]
    assert events[4] == PodEvent(PodEventType.DELETED, DELETED)


def test_a_restart_is_a_new_beginning() -> None:
    """After the kubelet's restart all pods are sent again."""
    events: list[PodEvent] = []
    with simulated(pods_api=True) as kubelet, watching(kubelet.pods_socket, events.append):
        eventually(lambda: len(events) == 1)
        kubelet.restart()
        eventually(lambda: len(events) == 2)
    assert {event.type for event in events} == {PodEventType.SYNCED}


def test_a_socket_that_comes_late(caplog: pytest.LogCaptureFixture) -> None:
    """A watch without a socket waits for one, and logs it once, however often it retries."""
    events: list[PodEvent] = []
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
    """A socket that lacks the method is like no socket."""
    with caplog.at_level(logging.INFO), short_directory() as directory:
        server = serve(directory / "p.sock", "v1alpha1.Pods", {})
        try:
            with watching(directory / "p.sock", lambda _: None):
                eventually(lambda: "UNIMPLEMENTED" in caplog.text)
        finally:
            server.stop(None).wait()


def test_stopping_is_prompt() -> None:
    """A watch that waits for events, one that waits to look again, and one that was never started stop at once."""
    with simulated(pods_api=True) as kubelet, short_directory() as directory:
        for socket in (kubelet.pods_socket, directory / "none.sock"):
            watch = PodWatch(str(socket), lambda _: None, first_pause=60)
            watch.start()
            begun = time.monotonic()
            watch.stop()
            assert time.monotonic() - begun < PATIENCE / 2
        PodWatch(str(kubelet.pods_socket), lambda _: None).stop()


def test_a_callback_may_stop_the_watch() -> None:
    """It runs in the watch's own thread, which cannot wait for itself."""
    events: list[PodEvent] = []

    def stop(event: PodEvent) -> None:
        events.append(event)
        watch.stop()

    with simulated(pods_api=True) as kubelet:
        kubelet.start(pod("a"))
        with watching(kubelet.pods_socket, stop) as watch:
            eventually(lambda: bool(events))
    assert len(events) == 1


def test_a_callback_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    """Its error is logged, and the watch begins anew."""
    calls: list[PodEvent] = []

    def fail_once(event: PodEvent) -> None:
        calls.append(event)
        if len(calls) == 1:
            raise ValueError("no luck")

    with simulated(pods_api=True) as kubelet, watching(kubelet.pods_socket, fail_once):
        eventually(lambda: len(calls) == 2)
    assert "no luck" in caplog.text


# --- decoding


def test_other_fields_of_a_pod_are_ignored() -> None:
    """A v1.Pod has hundreds of fields; spec is number 2, annotations are number 12 of the metadata."""
    metadata = pb.ObjectMeta(name="a", namespace="lab", uid="u").SerializeToString() + bytes([12 << 3 | 2, 2, 0x0A, 0])
    message = bytes([1 << 3 | 2, len(metadata)]) + metadata + bytes([2 << 3 | 2, 3]) + b"new"
    event = decode_event(pb.WatchPodsEvent(type=pb.ADDED, pod=message).SerializeToString())
    assert event == PodEvent(PodEventType.ADDED, WatchedPod("lab", "a", "u", {}, ""))


@given(
    st.sampled_from(list(PodEventType)),
    st.text(),
    st.text(),
    st.text(),
    st.dictionaries(st.text(), st.text()),
    st.text(),
)
def test_events_survive(
    kind: PodEventType, namespace: str, name: str, uid: str, labels: dict[str, str], phase: str
) -> None:
    """Whatever a kubelet can send is decoded."""
    metadata = pb.ObjectMeta(name=name, namespace=namespace, uid=uid, labels=labels)
    message = pb.Pod(metadata=metadata, status=pb.PodStatus(phase=phase)).SerializeToString()
    event = decode_event(pb.WatchPodsEvent(type=pb.EventType.Name(kind.value), pod=message).SerializeToString())
    assert event.type is kind
    assert event.pod == (None if kind is PodEventType.SYNCED else WatchedPod(namespace, name, uid, labels, phase))


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_damage_is_an_error_of_decoding(response: bytes, inner: bytes) -> None:
    """Whatever the bytes, of the event or of the pod in it, nothing else is raised."""
    for damaged in (response, pb.WatchPodsEvent(type=pb.ADDED, pod=inner).SerializeToString()):
        with contextlib.suppress(DecodeError, ValueError):
            decode_event(damaged)


def test_an_event_of_a_new_type(caplog: pytest.LogCaptureFixture) -> None:
    """It is dropped and logged; the events after it are delivered."""
    events: list[PodEvent] = []
    with simulated(pods_api=True) as kubelet, watching(kubelet.pods_socket, events.append):
        eventually(lambda: len(events) == 1)
        broadcast = kubelet._broadcast  # pyright: ignore[reportPrivateUsage] -- no real kubelet sends this
        broadcast.send(pb.WatchPodsEvent.FromString(bytes([1 << 3, 9])))
        kubelet.start(pod("a"))
        eventually(lambda: len(events) == 3)
    assert "an event of 2 bytes is left out: 9 is not a valid PodEventType" in caplog.text
