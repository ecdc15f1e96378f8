"""Channels to the kubelet's unix sockets, and the meaning of gRPC's errors on them."""

from __future__ import annotations

from urllib.parse import quote

import grpc

from zonewise.kubelet.errors import BadResponse, KubeletError, KubeletTimeout, KubeletUnavailable, Throttled

_OPTIONS = (
    # without this option gRPC sends the path, "%2Fvar%2Flib...", as the authority, which servers reject (grpc#34305,
    # kubernetes#112597)
    ("grpc.default_authority", "localhost"),
    # a proxy from the environment cannot serve unix sockets
    ("grpc.enable_http_proxy", 0),
    # one List may have 17.8 MB (kubernetes#141335); the default is 4 MiB
    ("grpc.max_receive_message_length", -1),
    # milliseconds: a kubelet restarts within a second, and gRPC's own 20 s would outlast the deadline
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
)

_ERROR_TYPES: dict[grpc.StatusCode, type[KubeletError]] = {
    grpc.StatusCode.UNAVAILABLE: KubeletUnavailable,
    grpc.StatusCode.CANCELLED: KubeletUnavailable,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Throttled,
}

_NOT_CONNECTED = "failed to connect to all addresses"
_MAX_DETAILS = 300  # maximum characters of a server's details in the log


def open_channel(socket_path: str) -> grpc.Channel:
    """Return a channel to a socket; it connects at the first call, and again whenever the socket has been
    re-created.
    """
    return grpc.insecure_channel(f"unix:{quote(socket_path)}", options=_OPTIONS)


def kubelet_error(error: grpc.RpcError, call: str) -> KubeletError:
    """Return our error for one of gRPC's, in one sentence; `call` names the method and the socket."""
    code, details = error.code(), " ".join((error.details() or "").split())
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return KubeletTimeout(f"{call}: no response in time")
    if code is grpc.StatusCode.UNAVAILABLE and details.startswith(_NOT_CONNECTED):
        # the details continue with "; last error: UNKNOWN: unix:PATH: connect failed: addr: unix:PATH error: Connection
        # refused"
        return KubeletUnavailable(f"{call}: cannot connect: {details.rpartition(': ')[2]}")
    return _ERROR_TYPES.get(code, BadResponse)(f"{call}: {code.name}: {details[:_MAX_DETAILS]}")
