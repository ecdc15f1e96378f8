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
    grpc.StatusCode.RESOURCE_EXHAUSTED: Throttled,
}

_NOT_CONNECTED = "failed to connect to all addresses"
_LONGEST = 300  # characters of what somebody else says in our log


def open_channel(socket_path: str) -> grpc.Channel:
    """Return a channel to a socket; it connects at the first call, and anew whenever the socket was re-created."""
    return grpc.insecure_channel(f"unix:{quote(socket_path)}", options=_OPTIONS)


def kubelet_error(error: grpc.RpcError, call: str) -> KubeletError:
    """Return our error for gRPC's, in one sentence; `what` names the call and the socket."""
    code, details = error.code(), " ".join((error.details() or "").split())
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return KubeletTimeout(f"{call}: no answer in time")
    if code is grpc.StatusCode.UNAVAILABLE and details.startswith(_NOT_CONNECTED):
        # goes on as "; last error: UNKNOWN: unix:PATH: connect failed: addr: unix:PATH error: Connection refused"
        return KubeletUnavailable(f"{call}: cannot connect: {details.rpartition(': ')[2]}")
    return _MEANINGS.get(code, BadAnswer)(f"{call}: {code.name}: {details[:_LONGEST]}")
