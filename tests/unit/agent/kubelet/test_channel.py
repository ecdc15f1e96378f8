"""gRPC errors become one readable sentence, and gRPC itself logs nothing."""

from __future__ import annotations

import subprocess
import sys
from typing import cast

import grpc
import pytest

from zonewise.kubelet.channel import kubelet_error
from zonewise.kubelet.errors import BadResponse, KubeletError, KubeletTimeout, KubeletUnavailable, Throttled

Code = grpc.StatusCode
PATH = "unix:/k/kubelet.sock"
CONNECTION_REFUSED = (
    f"failed to connect to all addresses; last error: FAILED_PRECONDITION: {PATH}: connect failed: addr: {PATH}"
)

OLDER = f"failed to connect to all addresses; last error: UNKNOWN: {PATH}: Failed to connect to remote host:"


class RpcFailure(grpc.RpcError):
    """The exception of a failed call: an RpcError that is also a Call."""

    def __init__(self, code: grpc.StatusCode, details: str | None) -> None:
        self._code = code
        self._details = details

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return cast("str", self._details)


@pytest.mark.parametrize(
    ("code", "details", "kind", "sentence"),
    [
        (Code.UNAVAILABLE, f"{CONNECTION_REFUSED} error: No such file or directory", KubeletUnavailable,
         "cannot connect: No such file or directory"),
        (Code.UNAVAILABLE, f"{OLDER} Connection refused", KubeletUnavailable, "cannot connect: Connection refused"),
        (Code.UNAVAILABLE, "Socket closed", KubeletUnavailable, "UNAVAILABLE: Socket closed"),
        (Code.CANCELLED, "Channel closed!", KubeletUnavailable, "CANCELLED: Channel closed!"),
        (Code.DEADLINE_EXCEEDED, "Deadline Exceeded", KubeletTimeout, "no response in time"),
        (Code.RESOURCE_EXHAUSTED, "rejected by rate limit", Throttled, "RESOURCE_EXHAUSTED: rejected by rate limit"),
        (Code.UNKNOWN, "first\n  second", BadResponse, "UNKNOWN: first second"),
        (Code.UNKNOWN, None, BadResponse, "UNKNOWN: "),
        (Code.INTERNAL, "x" * 1000, BadResponse, f"INTERNAL: {'x' * 300}"),
    ],
)  # fmt: skip
def test_errors(code: grpc.StatusCode, details: str | None, kind: type[KubeletError], sentence: str) -> None:
    """One line of bounded length names the call, the socket once, and the innermost reason."""
    error = kubelet_error(RpcFailure(code, details), "List on /k/kubelet.sock")
    assert (type(error), str(error)) == (kind, f"List on /k/kubelet.sock: {sentence}")


@pytest.mark.parametrize(
    "module",
    [
        "zonewise.kubelet.channel",
        "zonewise.kubelet.podresources.client",
        "zonewise.kubelet.pods.watch",
        "zonewise_sandbox.kubelet.grpc_server",
    ],
)
def test_grpc_logging_is_disabled_before_its_import(module: str) -> None:
    """It does not matter which of the modules imports gRPC."""
    program = (
        "import builtins, os\n"
        "load = builtins.__import__\n"
        "def checked(name, *rest):\n"
        "    assert name.partition('.')[0] != 'grpc' or os.environ.get('GRPC_VERBOSITY') == 'ERROR'\n"
        "    return load(name, *rest)\n"
        "builtins.__import__ = checked\n"
        f"import {module}, sys\n"
        "assert 'grpc' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env={}, timeout=300)
