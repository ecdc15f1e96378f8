"""On a real API server with a real kube-scheduler: the scheduler's manifests give it the rights that it needs."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from typing import TYPE_CHECKING, NamedTuple

import pytest
import trustme
import urllib3
import yaml

from support.apiserver import RealServer, real_apiserver
from support.extender import Extender
from support.manifests import MANIFESTS, NAMESPACE, Object, apply, combined, objects, of_kind, rendered
from support.nrt_objects import guaranteed, nrt
from support.programs import dying_with_us, find_program, missing_program
from support.waiting import pause
from zonewise_sandbox.up.ports import reserved_port

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

ACCOUNT = "zonewise-scheduler"
LIMIT = 60.0
NODE = "node-1"
PODS = "/api/v1/namespaces/default/pods"
TOPOLOGY = "topology.node.k8s.io/v1alpha2"
TOPOLOGIES = f"/apis/{TOPOLOGY}/noderesourcetopologies"
ROOM = {"cpu": "32", "memory": "64Gi", "pods": "110"}
EXAMPLE = MANIFESTS / "scheduler" / "examples" / "kube-scheduler-configuration.yaml"
WAYS = {"beside": "scheduler", "bind": "scheduler", "over TLS": "scheduler/overlays/extender"}


class Site(NamedTuple):
    """A server with one variant of the manifests applied; extender and kube-scheduler run with its rights."""

    server: RealServer
    way: str
    extender: Extender
    log: Path
    """Log of kube-scheduler."""
    port: int
    """Port of kube-scheduler's health endpoints."""

    def pod(self, name: str) -> Object:
        return self.server.admin.get(f"{PODS}/{name}").ok()

    def create(self, name: str, cpus: int) -> None:
        """Create a Guaranteed pod for the kube-scheduler that calls the extender."""
        profile = {} if self.way == "over TLS" else {"schedulerName": "zonewise"}
        spec = {"containers": [guaranteed(cpus) | {"image": "none"}], **profile}
        self.server.admin.post(PODS, {"metadata": {"name": name}, "spec": spec}).ok()

    def report(self, *cpus: int) -> None:
        """Publish a report of a node with that many free CPUs in each zone."""
        memory = {"name": "memory", "capacity": "32Gi", "allocatable": "32Gi", "available": "32Gi"}
        made = nrt(
            [
                {
                    "name": f"node-{number}",
                    "type": "Node",
                    "resources": [
                        {"name": "cpu", "capacity": "16", "allocatable": "16", "available": str(free)},
                        memory,
                    ],
                }
                for number, free in enumerate(cpus)
            ]
        )
        made |= {"apiVersion": TOPOLOGY, "kind": "NodeResourceTopology", "metadata": {"name": NODE}}
        self.server.admin.apply(f"{TOPOLOGIES}/{NODE}", made, "test").ok()

    def until(self, name: str, holds: Callable[[Object], bool]) -> Object:
        """Wait until a condition on a pod holds; return the pod."""
        started = time.monotonic()
        while not holds(pod := self.pod(name)):
            waited = time.monotonic() - started
            assert waited < LIMIT, f"{pod}\n{self.extender.said[-3000:]}\n{self.log.read_text()[-3000:]}"
            pause(waited)
        return pod


@pytest.fixture(scope="module", params=WAYS)
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[Site]:
    if find_program("kube-scheduler") is None:
        pytest.skip(missing_program("kube-scheduler"))
    way, place = str(request.param), tmp_path_factory.mktemp("scheduler")
    overlay = WAYS[way]
    made = combined(overlay, "scheduler/components/bind") if way == "bind" else objects(overlay)
    with real_apiserver() as server, contextlib.ExitStack() as stack:
        apply(server, rendered("."))
        apply(server, yaml.safe_dump_all(made))
        _new_node(server)
        account = kubeconfig(place / "account", server, server.service_account_token(NAMESPACE, ACCOUNT))
        flags = ["--kubeconfig", account, *(["--bind=true"] if way == "bind" else [])]
        flags += certificates(place) if way == "over TLS" else []
        extender = Extender(place, flags)
        stack.callback(extender.close)
        if way == "over TLS":
            config = yaml.safe_load(EXAMPLE.read_text())
            access = kubeconfig(place / "admin", server, server.token)
        else:
            [files] = [one["data"] for one in of_kind(made, "ConfigMap")]
            config, access = yaml.safe_load(files["kube-scheduler.yaml"]), account
        log = place / "kube-scheduler.log"
        port = stack.enter_context(kube_scheduler(adapted(config, extender, access, place), access, log))
        yield Site(server, way, extender, log, port)


def _new_node(server: RealServer) -> None:
    """Create a node to which kube-scheduler may bind pods; no controller removes the taint of new nodes here."""
    server.new_node(NODE)
    server.admin.patch(f"/api/v1/nodes/{NODE}", {"spec": {"taints": []}}).ok()
    server.admin.patch(f"/api/v1/nodes/{NODE}/status", {"status": {"capacity": ROOM, "allocatable": ROOM}}).ok()


def kubeconfig(file: Path, server: RealServer, token: str) -> str:
    content = {
        "apiVersion": "v1", "kind": "Config", "current-context": "lab",
        "clusters": [{"name": "lab", "cluster": {"server": server.url, "certificate-authority": server.ca}}],
        "users": [{"name": "user", "user": {"token": token}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "user"}}],
    }  # fmt: skip
    file.write_text(json.dumps(content))
    return str(file)


def certificates(place: Path) -> list[str]:
    """Write the certificates of both sides, and return the extender's flags."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(place / "ca.crt")
    for name, identity in (("tls", f"zonewise-extender.{NAMESPACE}.svc"), ("client", "kube-scheduler")):
        issued = authority.issue_cert(identity)
        issued.private_key_pem.write_to_path(place / f"{name}.key")
        issued.cert_chain_pems[0].write_to_path(place / f"{name}.crt")
    return [f"--tls-cert={place}/tls.crt", f"--tls-key={place}/tls.key", f"--tls-client-ca={place}/ca.crt"]


def adapted(config: Object, extender: Extender, access: str, place: Path) -> Path:
    """Write a configuration adapted to a process outside a cluster: credentials, port and paths of files."""
    [asked] = config["extenders"]
    config.setdefault("clientConnection", {})["kubeconfig"] = access
    config["leaderElection"] = {"leaderElect": False}
    asked["urlPrefix"] = f"{asked['urlPrefix'].partition(':')[0]}://127.0.0.1:{extender.ports[0]}"
    for key, name in (("caFile", "ca.crt"), ("certFile", "client.crt"), ("keyFile", "client.key")):
        if "tlsConfig" in asked:
            asked["tlsConfig"][key] = str(place / name)
    file = place / "config.yaml"
    file.write_text(yaml.safe_dump(config))
    return file


@contextlib.contextmanager
def kube_scheduler(config: Path, access: str, log: Path) -> Generator[int]:
    reviews = [f"--{name}-kubeconfig={access}" for name in ("authentication", "authorization")]
    with reserved_port() as port, log.open("wb") as output:
        place = ["--bind-address=127.0.0.1", f"--secure-port={port}"]
        command = dying_with_us(str(find_program("kube-scheduler")), f"--config={config}", *place, *reviews)
        process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            yield port
        finally:
            process.kill()
            process.wait(LIMIT)


def condition(pod: Object, kind: str) -> Object:
    conditions: list[Object] = pod["status"].get("conditions", [])
    return next((one for one in conditions if one["type"] == kind), Object())


def test_a_pod_from_its_creation_to_its_node(site: Site) -> None:
    """A pod waits without a report, then with a too small node and its reason; free CPUs requeue and place it."""
    site.create("job", 6)
    waiting = site.until("job", lambda pod: condition(pod, "PodScheduled").get("reason") == "Unschedulable")
    assert "without a report of zones" in condition(waiting, "PodScheduled")["message"]
    site.report(4, 4)
    site.create("other", 6)
    waiting = site.until("other", lambda pod: condition(pod, "PodScheduled").get("reason") == "Unschedulable")
    assert "needs 6 CPUs in one zone" in condition(waiting, "PodScheduled")["message"]
    site.report(16, 4)
    for name in ("job", "other"):
        placed = site.until(name, lambda pod: "nodeName" in pod["spec"])
        assert placed["spec"]["nodeName"] == NODE
        # without the component, kube-scheduler may bind a retried pod before the extender does
        is_bound_by_us = "zonewise.dev/predicted-admission" in placed["metadata"].get("annotations", {})
        is_filtered = f"pod=default/{name} node={NODE} " in site.extender.said
        assert is_bound_by_us or (is_filtered and site.way != "bind")
    for said in (site.extender.said, site.log.read_text()):
        assert "forbidden" not in said.lower()


def test_probes_of_kube_scheduler(site: Site) -> None:
    """Its probe endpoints serve every client, over TLS with a self-signed certificate."""
    for page in ("/livez", "/readyz"):
        deadline = time.monotonic() + LIMIT
        while status_of(site.port, page) != 200:
            assert time.monotonic() < deadline, site.log.read_text()[-3000:]


def status_of(port: int, page: str) -> int:
    with urllib3.HTTPSConnectionPool("127.0.0.1", port, cert_reqs="CERT_NONE", assert_hostname=False) as pool:
        with pytest.warns(urllib3.exceptions.InsecureRequestWarning):
            answer = pool.request("GET", page, retries=urllib3.Retry(20, backoff_factor=0.1))
        return answer.status


@pytest.mark.parametrize("site", ["over TLS"], indirect=True)
def test_only_clients_with_a_certificate_may_call(site: Site) -> None:
    """The extender serves only clients with a certificate; its health endpoint serves all."""
    ca = str(site.log.parent / "ca.crt")
    name = f"zonewise-extender.{NAMESPACE}.svc"
    asked, health = (
        urllib3.HTTPSConnectionPool("127.0.0.1", port, retries=False, ca_certs=ca, server_hostname=name)
        for port in site.extender.ports
    )
    with asked, pytest.raises(urllib3.exceptions.HTTPError):
        asked.request("POST", "/filter", body=b"{}")
    with health:
        assert health.request("GET", "/healthz").status == 200
