"""The read API behind the proxy of a real API server: with the unchanged manifests, only commands can read it."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import ssl
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import pytest
import yaml

from support.apiserver import RealServer, real_apiserver
from support.browser import BROWSER, DRIVER, browser
from support.e2e.cluster import write_kubeconfig
from support.egress_proxy import EgressProxy, egress_proxy
from support.kubelets import short_directory
from support.live_cluster import ControllerProcess, LiveCluster
from support.live_queue import KUEUE_CRDS
from support.manifests import MANIFESTS, NAMESPACE, apply
from support.waiting import PATIENCE, eventually
from zonewise.cli import main
from zonewise_common.kube.config import Config
from zonewise_common.kube.errors import Forbidden, Unauthorized
from zonewise_common.kube.transport import Transport
from zonewise_common.service.authorizer import TOKEN_HEADER
from zonewise_sandbox.up.ports import reserved_port
from zonewise_scheduler.client.cluster.page_server import PageServer
from zonewise_scheduler.client.cluster.read_api import ReadApiUnavailable, proxied_read_api

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path
    from typing import Any

FILES = ("service-account", "rbac", "viewer", "service", "webhook-secret")
PROXY = f"/api/v1/namespaces/{NAMESPACE}/services/https:zonewise-controller:webhooks/proxy"
ADDRESS = "10.0.0.1"
"""Address of the controller's pod; nothing listens there."""
USERS = "/apis/rbac.authorization.k8s.io/v1"


FORECAST = ("forecast", "--queue", "queue", "--pods", "1", "--cpus", "1", "--time", "1h", "-o", "json")


class Cluster(NamedTuple):
    server: RealServer
    live: LiveCluster


@pytest.fixture(scope="module")
def cluster() -> Generator[Cluster]:
    """Yield a server with the manifests, and a controller with their rights that serves webhooks on a loopback port."""
    with contextlib.ExitStack() as stack:
        directory, port = stack.enter_context(short_directory()), stack.enter_context(reserved_port())
        proxy: EgressProxy = stack.enter_context(egress_proxy(directory, port))
        running = stack.enter_context(real_apiserver(f"--egress-selector-config-file={proxy.file}"))
        _install(running)
        token = running.service_account_token(NAMESPACE, "zonewise-controller")
        flags = ("--kubeconfig", str(write_kubeconfig(running, directory, token)), "--namespace", NAMESPACE)
        live = LiveCluster(running.admin, directory, flags, real=True)
        live.add_queue(8)
        process: ControllerProcess = stack.enter_context(live.controller(*webhook_flags(live, port)))
        eventually(lambda: "webhooks are served" in process.said)
        yield Cluster(running, live)
        assert [line for line in process.said.splitlines() if "forbidden" in line.lower()] == []
        assert proxy.targets
        assert set(proxy.targets) == {f"{ADDRESS}:9443"}


@pytest.fixture
def server(cluster: Cluster) -> RealServer:
    return cluster.server


def webhook_flags(live: LiveCluster, port: int) -> tuple[str, ...]:
    """Return the flags of a replica that serves webhooks on a port."""
    certificates = live.directory / f"certificates-{port}"
    certificates.mkdir()
    return "--webhook-listen", f"127.0.0.1:{port}", "--webhook-cert-dir", str(certificates)


def _install(server: RealServer) -> None:
    namespace = yaml.safe_dump({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    crds = [file.read_text() for file in sorted(KUEUE_CRDS.glob("*s.yaml"))]
    content = [namespace, *crds, *((MANIFESTS / f"queue/base/{name}.yaml").read_text() for name in FILES)]
    apply(server, "\n---\n".join(content))
    name, path = "zonewise-controller", f"/api/v1/namespaces/{NAMESPACE}"
    spec = {"containers": [{"name": "zonewise", "image": "none"}]}
    server.admin.post(f"{path}/pods", {"metadata": {"name": name}, "spec": spec}).ok()
    status = {"podIP": ADDRESS, "podIPs": [{"ip": ADDRESS}]}
    server.admin.patch(f"{path}/pods/{name}/status", {"status": status}).ok()
    # the proxy reads only Endpoints, and uses only those of pods (pkg/registry/core/service/storage/storage.go)
    address = {"ip": ADDRESS, "targetRef": {"kind": "Pod", "name": name, "namespace": NAMESPACE}}
    subset = {"addresses": [address], "ports": [{"name": "webhooks", "port": 9443, "protocol": "TCP"}]}
    server.admin.post(f"{path}/endpoints", {"metadata": {"name": name}, "subsets": [subset]}).ok()


def config_of(server: RealServer, token: str) -> Config:
    return Config.from_url(server.url, token, ca=server.ca)


def user(server: RealServer, name: str, *roles: str) -> str:
    """Return a token of a new user, who is bound to roles in the controller's namespace."""
    server.admin.post("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": name}}).ok()
    for role in roles:
        subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
        body = {"metadata": {"name": name}, "subjects": [subject],
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role}}  # fmt: skip
        server.admin.post(f"{USERS}/namespaces/{NAMESPACE}/rolebindings", body).ok()
    return server.service_account_token("default", name)


def test_a_command_of_an_administrator(
    server: RealServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With only a kubeconfig, the command prints data that only the read API has."""
    monkeypatch.delenv("ZONEWISE_SERVER", raising=False)
    monkeypatch.delenv("ZONEWISE_TOKEN", raising=False)
    assert main([*FORECAST, "--kubeconfig", str(write_kubeconfig(server, tmp_path))]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert json.loads(out)["clusterQueue"] == "queue"


def test_commands_share_a_token_until_it_is_rejected(
    server: RealServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the first of two commands requests one. A token that the controller rejects is replaced at once."""
    monkeypatch.delenv("ZONEWISE_SERVER", raising=False)
    monkeypatch.delenv("ZONEWISE_TOKEN", raising=False)
    monkeypatch.setenv("ZONEWISE_CACHE_DIR", str(tmp_path / "cache"))
    command = [*FORECAST, "--kubeconfig", str(write_kubeconfig(server, tmp_path))]
    assert main(command) == 0
    [file] = (tmp_path / "cache").iterdir()
    first = file.read_text()
    assert main(command) == 0
    assert file.read_text() == first
    stored = json.loads(first)
    file.write_text(json.dumps({**stored, "token": "rejected"}))
    assert main(command) == 0
    assert json.loads(file.read_text())["token"] not in {"rejected", stored["token"]}


def test_a_user_with_the_role_of_the_manifests_reads(server: RealServer) -> None:
    api = proxied_read_api(config_of(server, user(server, "ann", "zonewise-user")), NAMESPACE)
    with contextlib.closing(api):
        queues = _soon(lambda: api.get("/api/v1/queues"))
        assert [queue["name"] for queue in queues["clusterQueues"]] == ["queue"]


def test_the_page_of_a_user_with_the_role(server: RealServer) -> None:
    """Data and the stream of changes pass through the API server; the browser has only the page's token."""
    api = proxied_read_api(config_of(server, user(server, "eve", "zonewise-user")), NAMESPACE)
    with contextlib.closing(api), PageServer(api, 0) as page:
        _soon(lambda: api.get("/api/v1/queues"))
        address = urlsplit(page.url)
        headers = {TOKEN_HEADER: address.fragment.removeprefix("token=")}
        with http_get(page.url, "/api/v1/cluster", headers) as response:
            body = json.loads(gzip.decompress(response.read()))
        assert "queue" in body["tables"]["clusterQueues"]["set"]
        with http_get(page.url, "/api/v1/cluster/events", {**headers, "Last-Event-ID": body["version"]}) as response:
            assert response.status == 200
            assert response.readline() == b"retry: 2000\n"
            path = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"
            queue = server.admin.get(f"{path}/queue").ok()
            server.admin.post(path, {**queue, "metadata": {"name": "second"}}).ok()
            assert any(b'"second"' in line for line in response)


@pytest.mark.skipif(BROWSER is None or DRIVER is None, reason="chromium and chromium-driver are absent")
def test_the_page_in_a_browser(server: RealServer) -> None:
    api = proxied_read_api(config_of(server, server.token), NAMESPACE)
    with contextlib.closing(api), PageServer(api, 0) as page, browser() as window:
        window.open(page.url)
        window.until("document.querySelector('#connection').dataset.state == 'live'")
        assert window.run("return zonewise.store.clusterQueues.has('queue')")
        assert window.log() == []


@contextlib.contextmanager
def http_get(url: str, path: str, headers: dict[str, str]) -> Generator[http.client.HTTPResponse]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE)
    try:
        connection.request("GET", path, headers=headers)
        yield connection.getresponse()
    finally:
        connection.close()


def test_a_standby_replica_is_not_read(cluster: Cluster) -> None:
    """Another replica holds the lease and has the reservations; the API server forwards requests to both."""
    held = {"holderIdentity": "other", "leaseDurationSeconds": 3600, "renewTime": "2100-01-01T00:00:00.000000Z"}
    lease = {"metadata": {"name": "zonewise-controller"}, "spec": held}
    cluster.server.admin.post(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases", lease).ok()
    token = cluster.server.service_account_token(NAMESPACE, "zonewise-viewer")
    with reserved_port() as port:
        flags = ("--leader-election", "true", *webhook_flags(cluster.live, port))
        with cluster.live.controller(*flags) as standby:
            eventually(lambda: "webhooks are served" in standby.said)
            eventually(lambda: _status(port, token) == 421)
            assert _status(port, "guessed") == 401


def _status(port: int, token: str) -> int:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # as in the API server's proxy
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=PATIENCE, context=context)
    with contextlib.closing(connection):
        connection.request("GET", "/api/v1/queues", headers={TOKEN_HEADER: token})
        return connection.getresponse().status


def test_a_user_without_the_role_gets_an_error_that_names_it(server: RealServer) -> None:
    api = proxied_read_api(config_of(server, user(server, "bob")), NAMESPACE)
    with (
        contextlib.closing(api),
        pytest.raises(ReadApiUnavailable, match="the Role zonewise-user grants this permission"),
    ):
        api.get("/api/v1/queues")


def test_a_token_of_another_account_is_rejected(server: RealServer) -> None:
    """Each account may `get` /api/* of the API server (system:discovery), but not of the controller."""
    other = user(server, "carl")
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    account = {"user": "system:serviceaccount:default:carl", "groups": ["system:authenticated"]}
    for url, is_allowed in (("/api/v1/queues", True), ("/zonewise/api/v1/queues", False)):
        spec = {**account, "nonResourceAttributes": {"path": url, "verb": "get"}}
        assert server.admin.post(path, {"spec": spec}).ok()["status"].get("allowed", False) == is_allowed
    api = proxied_read_api(config_of(server, server.token), NAMESPACE, other)
    with contextlib.closing(api), pytest.raises(ReadApiUnavailable, match="may not get /zonewise/api/v1/queues"):
        api.get("/api/v1/queues")


def test_the_token_of_the_api_server_does_not_reach_the_controller(server: RealServer) -> None:
    """The controller sees an administrator's request without a separate token as one without a token."""
    transport = Transport(config_of(server, server.token), timeout=PATIENCE, user_agent="test")
    with contextlib.closing(transport):
        with pytest.raises(Unauthorized, match="a bearer token is required"):
            transport.request("GET", f"{PROXY}/api/v1/queues", {})
        with pytest.raises(Unauthorized, match="the token is not valid"):
            transport.request("GET", f"{PROXY}/api/v1/queues", {}, headers={"X-Zonewise-Token": "guessed"})
        token = server.service_account_token(NAMESPACE, "zonewise-viewer")
        good = {"X-Zonewise-Token": token}
        assert b'"queue"' in transport.request("GET", f"{PROXY}/api/v1/queues", {}, headers=good)
        with pytest.raises(Forbidden):
            Transport(config_of(server, token), timeout=PATIENCE, user_agent="test").request("GET", "/api/v1/nodes", {})


def _soon(get: Any) -> Any:
    """Return a function's result as soon as a new role binding is in force."""
    replies: list[Any] = []

    def responds() -> bool:
        with contextlib.suppress(ReadApiUnavailable):
            replies.append(get())
        return bool(replies)

    eventually(responds)
    return replies[-1]
