"""The PodResources client against a server on a real socket: responses, faults and restarts."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest

from support.kubelets import GIB, GPU, pod, short_directory, simulated
from support.waiting import PATIENCE
from zonewise.kubelet.errors import BadResponse, KubeletError, KubeletTimeout, KubeletUnavailable, Throttled
from zonewise.kubelet.podresources import client as podresources_client
from zonewise.kubelet.podresources.client import BURST, RATE, PodResourcesClient
from zonewise.kubelet.podresources.v1 import podresources_pb2 as pb
from zonewise.kubelet.types import Allocatable, ContainerDevices, ContainerResources, MemoryBlock, PodResources
from zonewise_common.k8s.cpuset import CpuSet
from zonewise_sandbox.kubelet import Faults
from zonewise_sandbox.kubelet.grpc_server import Calls, serve

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def clients() -> Iterator[list[PodResourcesClient]]:
    """Return an empty list; the clients that a test adds are closed at the end."""
    opened: list[PodResourcesClient] = []
    yield opened
    for client in opened:
        client.close()


def make_client(path: Path, clients: list[PodResourcesClient], timeout: float = PATIENCE) -> PodResourcesClient:
    clients.append(PodResourcesClient(str(path), timeout=timeout))
    return clients[-1]


def test_responses(clients: list[PodResourcesClient]) -> None:
    """Both methods return the resources of a node with a pod."""
    with simulated() as kubelet:
        kubelet.start(pod("a", 2, memory=GIB, gpus=1))
        client = make_client(kubelet.socket, clients)
        main = ContainerResources(
            "main", CpuSet([1, 2]), (ContainerDevices(GPU, ("gpu-0",), (0,)),), (MemoryBlock("memory", GIB, (0,)),)
        )
        assert client.list() == (PodResources("lab", "a", (main,)),)
        assert client.allocatable().cpus == CpuSet(range(1, 32))
        assert client.problems == ()


def test_a_path_may_look_like_a_url(clients: list[PodResourcesClient]) -> None:
    """Percent signs, spaces and question marks are part of the path."""
    with short_directory() as directory:
        path = directory / "a%41 b?c#d" / "k.sock"
        server = serve(path, "v1.PodResourcesLister", {"List": Calls(Faults()).unary("List", lambda _, __: b"")})
        try:
            assert make_client(path, clients).list() == ()
        finally:
            server.stop(None).wait()


def test_the_start_of_a_kubelet(clients: list[PodResourcesClient]) -> None:
    """The client returns an empty response unchanged; it does not judge it."""
    with simulated(Faults(empty_allocatable=1, empty_lists=1)) as kubelet:
        kubelet.start(pod("a"))
        client = make_client(kubelet.socket, clients)
        assert client.list() == ()
        assert len(client.list()) == 1
        assert client.allocatable() == Allocatable()
        assert len(client.allocatable().cpus) == 31


# --- restarts


def test_a_recreated_socket(clients: list[PodResourcesClient]) -> None:
    """The next call after a restart succeeds."""
    with simulated() as kubelet:
        client = make_client(kubelet.socket, clients)
        for _ in range(3):
            assert client.list() == ()
            kubelet.restart()
        assert client.list() == ()


def test_a_socket_that_is_created_later(clients: list[PodResourcesClient]) -> None:
    """A call that begins before the socket exists succeeds as soon as the socket is created."""
    with simulated() as kubelet:
        client = make_client(kubelet.socket, clients)
        client.list()
        kubelet.close()
        assert not kubelet.socket.exists()
        later = threading.Timer(0.3, kubelet.serve)
        later.start()
        try:
            assert client.list() == ()
        finally:
            later.join()


def test_no_socket_at_all(clients: list[PodResourcesClient]) -> None:
    """The kubelet is unavailable, and the error names the path. The call ends by its deadline."""
    with short_directory() as directory:
        client = make_client(directory / "none.sock", clients, timeout=0.4)
        begun = time.monotonic()
        with pytest.raises(
            KubeletUnavailable, match=r"^List on [^ ]*none\.sock: cannot connect: No such file or directory$"
        ):
            client.list()
        assert time.monotonic() - begun < PATIENCE / 2


def test_a_retry_timeout_shorter_than_the_timeout() -> None:
    """A call to an absent kubelet fails after the retry timeout; a running kubelet has the whole timeout to respond."""
    with (
        simulated(Faults(delay=0.3)) as kubelet,
        contextlib.closing(PodResourcesClient(str(kubelet.socket), timeout=PATIENCE, retry_timeout=0)) as client,
    ):
        assert client.list() == ()
        kubelet.close()
        begun = time.monotonic()
        with pytest.raises(KubeletUnavailable):
            client.list()
        assert time.monotonic() - begun < PATIENCE / 2


def test_an_interrupted_call_is_repeated(clients: list[PodResourcesClient]) -> None:
    """If the kubelet stops during a response, the call is repeated when the kubelet is back."""
    with simulated(Faults(delay=4 * PATIENCE)) as kubelet:
        client = make_client(kubelet.socket, clients)
        responses: list[object] = []
        thread = threading.Thread(target=lambda: responses.append(client.list()))
        thread.start()
        kubelet.faults = Faults()
        kubelet.restart()
        thread.join(PATIENCE)
        assert responses == [()]


# --- errors


def test_a_kubelet_that_does_not_respond(clients: list[PodResourcesClient]) -> None:
    """The call ends at its deadline, and the error differs from that of an absent kubelet."""
    with simulated(Faults(delay=30)) as kubelet:
        client = make_client(kubelet.socket, clients, timeout=2)
        with pytest.raises(KubeletTimeout, match=r"no response in time$"):
            client.list()


def test_a_server_without_a_handshake(clients: list[PodResourcesClient]) -> None:
    """A socket that listens but never responds delays a call at most until its deadline."""
    with short_directory() as directory, socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(directory / "mute.sock"))
        mute.listen()
        client = make_client(directory / "mute.sock", clients, timeout=0.3)
        with pytest.raises((KubeletTimeout, KubeletUnavailable)):
            client.list()


def test_throttling_by_calls_of_other_clients(clients: list[PodResourcesClient]) -> None:
    """A throttled call is repeated until it succeeds."""
    with simulated(Faults(rate=10, burst=1)) as kubelet:
        client = make_client(kubelet.socket, clients)
        for _ in range(4):
            assert client.list() == ()


def test_throttling_that_does_not_end(clients: list[PodResourcesClient]) -> None:
    """Throttling until the deadline raises its own error."""
    with simulated(Faults(rate=0.001, burst=1)) as kubelet:
        client = make_client(kubelet.socket, clients, timeout=2)
        client.list()
        with pytest.raises(Throttled, match="rejected by rate limit"):
            client.list()


def test_the_client_limits_its_own_rate(clients: list[PodResourcesClient]) -> None:
    """A kubelet with the real limits never throttles a client that calls as often as possible."""
    with simulated() as kubelet:
        client = make_client(kubelet.socket, clients)
        begun = time.monotonic()
        for _ in range(BURST + 5):
            client.list()
        assert time.monotonic() - begun >= 5 / RATE - 0.001
        assert kubelet.calls() == {"List": BURST + 5}


def test_calls_that_would_be_sent_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that could not be sent before its deadline is not sent."""
    rate = 0.05  # so that the timeout, which gRPC measures in real time, is long
    monkeypatch.setattr(podresources_client, "RATE", rate)
    with simulated() as kubelet:
        client = PodResourcesClient(str(kubelet.socket), timeout=3.8 / rate, clock=lambda: 0.0, wait=lambda _: None)
        for _ in range(BURST + 3):
            client.list()
        with pytest.raises(Throttled, match="the agent's calls"):
            client.list()
        client.close()


def test_an_error_of_the_kubelet(clients: list[PodResourcesClient]) -> None:
    """It is not repeated, and its message is part of the error. The next call is a new one."""
    with simulated(Faults(failing_lists=1)) as kubelet:
        client = make_client(kubelet.socket, clients)
        with pytest.raises(BadResponse, match="UNKNOWN: the simulated kubelet is set to fail"):
            client.list()
        assert client.list() == ()


def test_garbage(clients: list[PodResourcesClient], caplog: pytest.LogCaptureFixture) -> None:
    """A response that cannot be decoded is an error of the client, without a traceback of gRPC in the log."""
    with simulated(Faults(garbled_lists=1)) as kubelet:
        client = make_client(kubelet.socket, clients)
        with pytest.raises(BadResponse, match=r"4 bytes are no v1\.ListPodResourcesResponse"):
            client.list()
        assert caplog.text == ""


def test_an_absent_method(clients: list[PodResourcesClient]) -> None:
    """Kubelets before 1.23 have no GetAllocatableResources."""
    with short_directory() as directory:
        server = serve(directory / "k.sock", "v1.PodResourcesLister", {})
        try:
            with pytest.raises(BadResponse, match="UNIMPLEMENTED"):
                make_client(directory / "k.sock", clients).allocatable()
        finally:
            server.stop(None).wait()


def test_a_response_of_many_megabytes(clients: list[PodResourcesClient]) -> None:
    """Responses of 18 MB have been observed; gRPC's default limit is 4 MiB."""
    with simulated(Faults(ballast=18_000_000)) as kubelet:
        kubelet.start(pod("a", 1))
        ((claimed,),) = [container.claimed for container in make_client(kubelet.socket, clients).list()[0].containers]
        assert claimed.device == "device-0"


def test_malformed_values_are_reported(clients: list[PodResourcesClient]) -> None:
    """The value is among the problems, with the name of the call, as long as the kubelet sends it."""
    message = pb.PodResources(namespace="lab", name="a", containers=[pb.ContainerResources(name="c", cpu_ids=[-3])])
    responses = [pb.ListPodResourcesResponse(pod_resources=[message])] * 2 + [pb.ListPodResourcesResponse()]
    with short_directory() as directory:
        calls = Calls(Faults())
        method = calls.unary("List", lambda _, number: responses[number - 1])
        server = serve(directory / "k.sock", "v1.PodResourcesLister", {"List": method})
        try:
            client = make_client(directory / "k.sock", clients)
            problems = [(client.list(), client.problems)[1] for _ in range(3)]
        finally:
            server.stop(None).wait()
    problem = f"List on {directory}/k.sock: pod lab/a, container c: cpu_ids: -3 outside 0..8191; left out"
    assert problems == [(problem,), (problem,), ()]


# --- closing


def test_closing_ends_a_call(clients: list[PodResourcesClient]) -> None:
    """A call in progress ends at once, even one that waits for a socket; later calls are not sent."""
    with short_directory() as directory:
        client = make_client(directory / "none.sock", clients, timeout=4 * PATIENCE)
        raised: list[BaseException] = []

        def call() -> None:
            try:
                client.list()
            except KubeletError as error:
                raised.append(error)

        thread = threading.Thread(target=call)
        thread.start()
        client.close()
        thread.join(PATIENCE)
        assert not thread.is_alive()
        assert [type(error) for error in raised] == [KubeletUnavailable]
        with pytest.raises(KubeletUnavailable, match="closed"):
            client.list()


def test_many_threads(clients: list[PodResourcesClient]) -> None:
    """One client serves several threads."""
    with simulated() as kubelet:
        kubelet.start(pod("a", 1))
        client = make_client(kubelet.socket, clients)
        responses: list[object] = []
        threads = [threading.Thread(target=lambda: responses.append(client.list())) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(responses) == 8
        assert len({str(response) for response in responses}) == 1
