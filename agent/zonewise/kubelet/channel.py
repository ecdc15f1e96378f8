"""Channels to the kubelet's unix sockets, and the meaning of gRPC's errors there."""

from __future__ import annotations

from urllib.parse import quote

import grpc

from zonewise.kubelet.errors import BadAnswer, KubeletError, KubeletTimeout, KubeletUnavailable, Throttled

_OPTIONS = (
    # else gRPC sends the path, "%2Fvar%2Flib...", as authority, which servers refuse (grpc#34305, kubernetes#112597)
    ("grpc.default_authority", "localhost"),
    # a proxy of the environment serves no sockets of this machine
    ("grpc.enable_http_proxy", 0),
    # 17.8 MB have been seen of one List (kubernetes#141335); the default of 4 MiB would blind us there
    ("grpc.max_receive_message_length", -1),
    # milliseconds: a kubelet that restarts is back within a second, and gRPC's own 20 s would outlast our deadline
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
)

_MEANINGS: dict[grpc.StatusCode, type[KubeletError]] = {
    grpc.StatusCode.UNAVAILABLE: KubeletUnavailable,
    grpc.StatusCode.CANCELLED: KubeletUnavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: KubeletTimeout,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Throttled,
}


def open_channel(socket_path: str) -> grpc.Channel:
    """Return a channel to a socket; it connects at the first call, and anew whenever the socket was re-created."""
    return grpc.insecure_channel(f"unix:{quote(socket_path)}", options=_OPTIONS)


def meaning_of(error: grpc.RpcError, what: str) -> KubeletError:
    """Return our error for gRPC's; `what` names the call and the socket."""
    code = error.code()
    return _MEANINGS.get(code, BadAnswer)(f"{what}: {code.name}: {error.details()}")
