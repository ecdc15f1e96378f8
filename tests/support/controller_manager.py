"""A real kube-controller-manager for a real API server, with the controllers that interact with a queue."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

import pytest

from support.apiserver import RealServer, real_apiserver
from support.programs import RestartableProcess, find_program, missing_program
from support.sharing import shared
from zonewise_sandbox.up.ports import reserved_port

if TYPE_CHECKING:
    from collections.abc import Generator

CONTROLLERS = (
    "job-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "ttl-after-finished-controller",
    "disruption-controller",
    "clusterrole-aggregation-controller",
    "resourceclaim-controller",
)


@contextlib.contextmanager
def real_controller_manager(server: RealServer, *flags: str) -> Generator[RestartableProcess]:
    """Run the controllers for a server; skip the test if there is no binary.

    The single replica leads at once, without an election. It serves only its health endpoint, on loopback.
    """
    program = find_program("kube-controller-manager")
    if program is None:
        pytest.skip(missing_program("kube-controller-manager"))
    kubeconfig = server.directory / "controller-manager.kubeconfig"
    kubeconfig.write_text(json.dumps(_kubeconfig(server)))
    with reserved_port() as port:
        command = [
            str(program),
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            f"--controllers={','.join(CONTROLLERS)}",
            f"--service-account-private-key-file={server.directory / 'accounts.key'}",
            f"--root-ca-file={server.ca}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={server.directory}",
            "--kube-api-qps=2000",
            "--kube-api-burst=4000",
            *flags,
        ]
        with RestartableProcess(command, server.directory / "controller-manager.log") as process:
            yield process


@pytest.fixture(scope="module")
def real_job_server() -> RealServer:
    """Return a real server with its controllers that test files share; each test has its own namespace."""
    return shared("real_job_server", _controlled_server)


@contextlib.contextmanager
def _controlled_server() -> Generator[RealServer]:
    with real_apiserver() as server, real_controller_manager(server):
        yield server


def _kubeconfig(server: RealServer) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": server.url, "certificate-authority": server.ca}}],
        "users": [{"name": "admin", "user": {"token": server.token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
        "current-context": "test",
    }
