"""gRPC calls against grpcio's server, and against servers that violate the protocol; errors are one sentence."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import grpc
import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import StreamEnded
from hypothesis import given, settings
from hypothesis import strategies as st

from support.kubelets import short_directory
from support.waiting import PATIENCE
from zonewise.kubelet.channel import Channel
from zonewise.kubelet.errors import BadResponse, KubeletError, KubeletTimeout, KubeletUnavailable, Throttled
from zonewise_sandbox.kubelet.grpc_server import serve

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from pathlib import Path

Code = grpc.StatusCode
SERVICE = "test.Echo"
OK = [("grpc-status", "0")]
DATA_OF_NO_STREAM = b"\0\0\4" + b"\0\0" + b"\0\0\0\3" + b"data"


@contextlib.contextmanager
def grpc_server(handler: grpc.RpcMethodHandler[bytes, bytes]) -> Generator[Channel]:
    """Serve one method by grpcio; yield a channel to it."""
    with short_directory() as directory:
        server = serve(directory / "k.sock", SERVICE, {"Call": handler})
        try:
            with contextlib.closing(Channel(str(directory / "k.sock"), SERVICE)) as channel:
                yield channel
        finally:
            server.stop(None).wait()


def aborting(code: grpc.StatusCode, details: str) -> grpc.RpcMethodHandler[bytes, bytes]:
    def abort(_request: bytes, context: grpc.ServicerContext) -> NoReturn:
        context.abort(code, details)

    return grpc.unary_unary_rpc_method_handler(abort)


# --- grpcio as the server


@settings(max_examples=10, deadline=None)
@given(st.lists(st.binary(max_size=100), max_size=5), st.integers(0, 200_000))
def test_messages_are_those_of_grpcio(messages: list[bytes], size: int) -> None:
    """Requests and responses of any size arrive unchanged and in order."""
    sent = [*messages, bytes(size)]

    def respond(request: bytes, _context: grpc.ServicerContext) -> Iterator[bytes]:
        yield request
        yield from sent

    with grpc_server(grpc.unary_stream_rpc_method_handler(respond)) as channel:
        assert list(channel.stream("Call", b"request")) == [b"request", *sent]
        with pytest.raises(BadResponse, match="several responses instead of one"):
            channel.call("Call", b"", PATIENCE)


@pytest.mark.parametrize("code", [code for code in Code if code is not Code.OK])
def test_every_status_has_the_name_that_grpcio_gives_it(code: grpc.StatusCode) -> None:
    with grpc_server(aborting(code, "no luck")) as channel, pytest.raises(KubeletError) as raised:
        channel.call("Call", b"", PATIENCE)
    expected = "no response in time" if code is Code.DEADLINE_EXCEEDED else f"{code.name}: no luck"
    assert str(raised.value).endswith(f"k.sock: {expected}")


@pytest.mark.parametrize(
    ("code", "details", "kind", "sentence"),
    [
        (Code.UNAVAILABLE, "closing", KubeletUnavailable, "UNAVAILABLE: closing"),
        (Code.CANCELLED, "cancelled", KubeletUnavailable, "CANCELLED: cancelled"),
        (Code.DEADLINE_EXCEEDED, "", KubeletTimeout, "no response in time"),
        (Code.RESOURCE_EXHAUSTED, "rejected by rate limit", Throttled, "RESOURCE_EXHAUSTED: rejected by rate limit"),
        (Code.UNKNOWN, "first\n  second: 100 % \u00fc", BadResponse, "UNKNOWN: first second: 100 % \u00fc"),
        (Code.UNKNOWN, "", BadResponse, "UNKNOWN: "),
        (Code.INTERNAL, "x" * 1000, BadResponse, f"INTERNAL: {'x' * 300}"),
    ],
)  # fmt: skip
def test_errors(code: grpc.StatusCode, details: str, kind: type[KubeletError], sentence: str) -> None:
    """One line of bounded length names the call, the socket once, and the reason."""
    with grpc_server(aborting(code, details)) as channel, pytest.raises(KubeletError) as raised:
        channel.call("Call", b"", PATIENCE)
    assert type(raised.value) is kind
    assert str(raised.value).partition(": ")[2] == sentence
    assert str(raised.value).startswith("Call on /")


def test_a_late_response_ends_at_the_deadline() -> None:
    released = threading.Event()

    def respond(_request: bytes, _context: grpc.ServicerContext) -> bytes:
        released.wait(PATIENCE)
        return b""

    with grpc_server(grpc.unary_unary_rpc_method_handler(respond)) as channel:
        with pytest.raises(KubeletTimeout, match=r"no response in time$"):
            channel.call("Call", b"", 0.2)
        released.set()


def test_closing_ends_a_stream() -> None:
    def respond(_request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        yield b"first"
        ended = threading.Event()
        context.add_callback(ended.set)
        ended.wait(PATIENCE)

    with grpc_server(grpc.unary_stream_rpc_method_handler(respond)) as channel:
        stream = channel.stream("Call", b"")
        assert next(stream) == b"first"
        closer = threading.Timer(0.1, channel.close)
        closer.start()
        with pytest.raises(KubeletUnavailable):
            next(stream)
        closer.join()
        with pytest.raises(KubeletUnavailable, match=r"the client is closed$"):
            channel.call("Call", b"", PATIENCE)


# --- servers that violate the protocol


class Peer(NamedTuple):
    """The server's end of a connection, once the request has been read."""

    connection: socket.socket
    http: H2Connection

    def flush(self) -> None:
        self.connection.sendall(self.http.data_to_send())

    def respond(self, content: bytes, *, trailers: list[tuple[str, str]] | None = None) -> None:
        """Send the content of a response, byte by byte."""
        self.http.send_headers(1, [(":status", "200"), ("content-type", "application/grpc")])
        self.http.send_data(1, content, end_stream=trailers is None)
        if trailers is not None:
            self.http.send_headers(1, trailers, end_stream=True)
        for byte in self.http.data_to_send():
            self.connection.sendall(bytes([byte]))


@contextlib.contextmanager
def raw_server(act: Callable[[Peer], object]) -> Generator[Channel]:
    """Accept one connection, read its request, act and close; yield a channel to it."""

    def run() -> None:
        connection, _ = listener.accept()
        with connection:
            http = H2Connection(H2Configuration(client_side=False))
            http.initiate_connection()
            while not any(isinstance(event, StreamEnded) for event in http.receive_data(connection.recv(65536))):
                connection.sendall(http.data_to_send())
            with contextlib.suppress(BrokenPipeError):  # the client has closed the connection
                act(Peer(connection, http))

    with short_directory() as directory, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(directory / "k.sock"))
        listener.listen()
        thread = threading.Thread(target=run)
        thread.start()
        with contextlib.closing(Channel(str(directory / "k.sock"), SERVICE)) as channel:
            yield channel
        thread.join(PATIENCE)


def reset(peer: Peer, code: int) -> None:
    peer.http.reset_stream(1, code)
    peer.flush()


def stop(peer: Peer) -> None:
    peer.http.close_connection()
    peer.flush()


def stop_and_respond(peer: Peer) -> None:
    peer.http.send_headers(1, [(":status", "200"), *OK], end_stream=True)
    response = peer.http.data_to_send()
    peer.http.close_connection()
    peer.connection.sendall(peer.http.data_to_send() + response)


def reject(peer: Peer) -> None:
    peer.http.send_headers(1, [(":status", "404")], end_stream=True)
    peer.flush()


VIOLATIONS: list[tuple[Callable[[Peer], object], type[KubeletError], str]] = [
    (lambda peer: None, KubeletUnavailable, "UNAVAILABLE: the connection was closed"),
    (lambda peer: peer.respond(b"\0\0\0\0\x09part"), BadResponse, "UNKNOWN: the response has no status"),
    (lambda peer: peer.respond(b"", trailers=OK), BadResponse, "no responses instead of one"),
    (lambda peer: peer.respond(bytes(10)), BadResponse, "several responses instead of one"),
    (lambda peer: peer.respond(b"\0\2\0\0\1"), BadResponse, "has 33554433 bytes, more than 33554432"),
    (lambda peer: peer.respond(b"\1\0\0\0\0", trailers=OK), BadResponse, "INTERNAL: the response is compressed"),
    (lambda peer: peer.respond(b"", trailers=[("grpc-status", "99")]), BadResponse, "UNKNOWN: "),
    (lambda peer: peer.connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"), KubeletUnavailable, "was closed"),
    (lambda peer: peer.connection.sendall(DATA_OF_NO_STREAM), KubeletUnavailable, "the connection broke"),
    (stop_and_respond, KubeletUnavailable, "the connection broke"),
    (reject, BadResponse, "UNKNOWN: HTTP status 404"),
    (stop, KubeletUnavailable, "UNAVAILABLE: the server stops"),
    (lambda peer: reset(peer, 7), KubeletUnavailable, "UNAVAILABLE: the server has reset the call"),
    (lambda peer: reset(peer, 8), KubeletUnavailable, "CANCELLED: the server has reset the call"),
    (lambda peer: reset(peer, 11), Throttled, "RESOURCE_EXHAUSTED: the server has reset the call"),
    (lambda peer: reset(peer, 99), BadResponse, "INTERNAL: the server has reset the call"),
]


@pytest.mark.parametrize(("act", "kind", "sentence"), VIOLATIONS)
def test_violations(act: Callable[[Peer], object], kind: type[KubeletError], sentence: str) -> None:
    with raw_server(act) as channel, pytest.raises(KubeletError) as raised:
        channel.call("Call", b"", PATIENCE)
    assert type(raised.value) is kind
    assert sentence in str(raised.value)


def test_a_response_in_single_bytes() -> None:
    with raw_server(lambda peer: peer.respond(b"\0\0\0\0\5hello", trailers=OK)) as channel:
        assert channel.call("Call", b"", PATIENCE) == b"hello"


def test_a_full_queue_of_connections_does_not_block(tmp_path: Path) -> None:
    with short_directory() as directory, contextlib.ExitStack() as stack:
        path = str(directory / "k.sock")
        listener = stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(path)
        listener.listen(0)
        waiting = stack.enter_context(socket.socket(socket.AF_UNIX))
        waiting.connect(path)
        with pytest.raises(KubeletUnavailable, match="cannot connect: Resource temporarily unavailable"):
            list(Channel(path, SERVICE).stream("Call", b""))
    with pytest.raises(KubeletUnavailable, match=r"cannot connect: .*too long"):
        Channel(str(tmp_path / ("x" * 200)), SERVICE).call("Call", b"", PATIENCE)


def test_grpc_logging_is_disabled_before_its_import() -> None:
    """The agent does not import gRPC at all."""
    program = (
        "import builtins, os, sys\n"
        "load = builtins.__import__\n"
        "def checked(name, *rest):\n"
        "    assert name.partition('.')[0] != 'grpc' or os.environ.get('GRPC_VERBOSITY') == 'ERROR'\n"
        "    return load(name, *rest)\n"
        "builtins.__import__ = checked\n"
        "import zonewise.daemon.main\n"
        "assert 'grpc' not in sys.modules\n"
        "import zonewise_sandbox.kubelet.grpc_server\n"
        "assert 'grpc' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env={}, timeout=300)
