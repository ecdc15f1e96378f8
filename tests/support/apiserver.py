"""A real kube-apiserver on a real etcd, for tests that need real behaviour: on loopback, in a scratch directory.

programs.py documents where the binaries are looked up; tests are skipped if they are missing. No controllers run, so
there is no garbage collection, and no default service accounts or endpoints.

    from support.apiserver import RealServer, real_server

    __all__ = ["real_server"]

    def test_it(real_server: RealServer) -> None:
        namespace = real_server.new_namespace()
"""

from __future__ import annotations

import contextlib
import secrets
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
import trustme
import urllib3

from support.api import Api
from support.programs import RestartableProcess, find_program, missing_program
from support.sharing import shared
from support.waiting import pause
from zonewise_sandbox.up.ports import reserved_port

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

START_LIMIT = 60.0
"""Seconds until /readyz must succeed; an idle machine needs about 3."""


class Binaries(NamedTuple):
    """The files of the servers."""

    etcd: str
    apiserver: str


class StartError(Exception):
    """A server ended or did not become ready; the message has the end of its log."""


class RealServer:
    """A running server and its administrator's client."""

    def __init__(
        self, url: str, ca: str, token: str, directory: Path, etcd: RestartableProcess, apiserver: RestartableProcess
    ) -> None:
        self.url = url
        self.etcd = etcd
        self.apiserver = apiserver
        self.ca = ca
        """File of the CA's certificate, in PEM."""
        self.token = token
        """An administrator's token (group system:masters)."""
        self.directory = directory
        """A scratch directory, which is deleted when the server stops."""
        self.admin = Api(url, token, ca)

    def wait_until_ready(self) -> None:
        """Wait until the server serves requests. Raises StartError."""
        started = time.monotonic()
        while (waited := time.monotonic() - started) < START_LIMIT:
            if not (self.etcd.is_alive and self.apiserver.is_alive):
                break
            with contextlib.suppress(urllib3.exceptions.HTTPError):
                # a separate thread creates the namespace a moment later
                if all(self.admin.get(path).status == 200 for path in ("/readyz", "/api/v1/namespaces/default")):
                    return
            pause(waited)
        states = {"etcd": self.etcd.is_alive, "apiserver": self.apiserver.is_alive}
        logs = {name: (self.directory / f"{name}.log").read_text(errors="replace")[-2000:] for name in states}
        raise StartError(f"the API server is not ready; alive: {states}; logs: {logs}")

    def as_token(self, token: str | None) -> Api:
        """Return a client of the same server with another token or with none."""
        return Api(self.url, token, self.ca)

    def new_namespace(self, prefix: str = "test") -> str:
        """Create a namespace for one test and return its name."""
        body = {"metadata": {"generateName": f"{prefix}-"}}
        return self.admin.post("/api/v1/namespaces", body).ok()["metadata"]["name"]

    def new_node(self, name: str) -> None:
        """Create a node unless it exists."""
        made = self.admin.post("/api/v1/nodes", {"metadata": {"name": name}})
        assert made.status in {201, 409}, made.body

    def service_account_token(self, namespace: str, account: str, *, pod: str | None = None) -> str:
        """Return a token of a service account, bound to a pod of the account if one is named."""
        path = f"/api/v1/namespaces/{namespace}"
        spec: dict[str, object] = {"expirationSeconds": 3600}
        if pod is not None:
            uid = self.admin.get(f"{path}/pods/{pod}").ok()["metadata"]["uid"]
            spec["boundObjectRef"] = {"kind": "Pod", "apiVersion": "v1", "name": pod, "uid": uid}
        answer = self.admin.post(f"{path}/serviceaccounts/{account}/token", {"spec": spec})
        return answer.ok()["status"]["token"]

    def token_on_node(self, namespace: str, account: str, node: str) -> str:
        """Return a token as the kubelet mounts it into a pod of the account on the node.

        Its user has the extra attribute authentication.kubernetes.io/node-name (KEP-4193). This method creates the node
        and the pod; the account must exist.
        """
        self.new_node(node)
        pod = f"{account}-{secrets.token_hex(4)}"
        spec = {"nodeName": node, "serviceAccountName": account, "containers": [{"name": "main", "image": "none"}]}
        self.admin.post(f"/api/v1/namespaces/{namespace}/pods", {"metadata": {"name": pod}, "spec": spec}).ok()
        return self.service_account_token(namespace, account, pod=pod)


def binaries() -> Binaries | str:
    """Return the files of the servers, or the reason for skipping the test."""
    etcd, apiserver = find_program("etcd"), find_program("kube-apiserver")
    if etcd is None or apiserver is None:
        return missing_program("etcd" if etcd is None else "kube-apiserver")
    return Binaries(str(etcd), str(apiserver))


@contextlib.contextmanager
def real_apiserver(*flags: str) -> Generator[RealServer]:
    """Run a server with extra flags; skip the test if there is no binary.

    The authorization modes are Node and RBAC. The admission plugin ServiceAccount is off because no controller creates
    the default accounts that it requires. Nothing mounts tokens into pods, so `RealServer.token_on_node` requests them.
    """
    found = binaries()
    if isinstance(found, str):
        pytest.skip(found)
    with contextlib.ExitStack() as stack:
        yield _started(stack, found, flags)


@pytest.fixture(scope="module")
def real_server() -> RealServer:
    """Return a real server that test files share; each test has its own namespace and object names."""
    return shared("real_server", real_apiserver)


def _started(stack: contextlib.ExitStack, found: Binaries, flags: Sequence[str]) -> RealServer:
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="apiserver-")))
    client, peer, secure = (stack.enter_context(reserved_port()) for _ in range(3))
    etcd = [found.etcd, *_etcd_flags(directory, client, peer)]
    store = stack.enter_context(RestartableProcess(etcd, directory / "etcd.log"))
    token = secrets.token_hex(16)
    _write_credentials(directory, token)
    command = [found.apiserver, *_apiserver_flags(directory, client, secure), *flags]
    process = stack.enter_context(RestartableProcess(command, directory / "apiserver.log"))
    server = RealServer(
        f"https://127.0.0.1:{secure}", str(directory / "ca.crt"), token, directory, etcd=store, apiserver=process
    )
    stack.callback(server.admin.close)
    server.wait_until_ready()
    return server


def _etcd_flags(directory: Path, client: int, peer: int) -> list[str]:
    return [
        f"--data-dir={directory / 'etcd'}",
        f"--listen-client-urls=http://127.0.0.1:{client}",
        f"--advertise-client-urls=http://127.0.0.1:{client}",
        f"--listen-peer-urls=http://127.0.0.1:{peer}",
        f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
        f"--initial-cluster=default=http://127.0.0.1:{peer}",
        "--unsafe-no-fsync",
        "--log-level=error",
    ]


def _apiserver_flags(directory: Path, etcd: int, port: int) -> list[str]:
    return [
        f"--etcd-servers=http://127.0.0.1:{etcd}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={directory / 'server.crt'}",
        f"--tls-private-key-file={directory / 'server.key'}",
        f"--token-auth-file={directory / 'tokens.csv'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={directory / 'accounts.key'}",
        f"--service-account-signing-key-file={directory / 'accounts.key'}",
        "--service-cluster-ip-range=10.96.0.0/24",
        "--authorization-mode=Node,RBAC",
        "--disable-admission-plugins=ServiceAccount",
        "--endpoint-reconciler-type=none",
        "--enable-priority-and-fairness=false",
        "--profiling=false",
    ]


def _write_credentials(directory: Path, token: str) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(directory / "ca.crt")
    issued = authority.issue_cert("127.0.0.1", "localhost")
    issued.private_key_pem.write_to_path(directory / "server.key")
    for pem in issued.cert_chain_pems:
        pem.write_to_path(directory / "server.crt", append=True)
    authority.issue_cert("accounts").private_key_pem.write_to_path(directory / "accounts.key")
    (directory / "tokens.csv").write_text(f'{token},admin,admin,"system:masters"\n')
