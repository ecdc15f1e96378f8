"""A real Prometheus scrapes a running agent, extender and controller: panels have data, and rules are evaluated."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
import urllib.parse
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import trustme
import urllib3
import yaml

from support.agents import NODE, new_site
from support.disk import lay_out
from support.extender import Caller, build_pod, new_cluster, plain_nrt, running_extender
from support.live_cluster import WORKLOADS, simulated_live_cluster
from support.manifests import MANIFESTS
from support.programs import dying_with_us
from support.queue_objects import cluster_queue_spec
from support.trees import server_tree
from support.waiting import PATIENCE, eventually, pause
from tools.dashboards.panels import DASHBOARDS
from zonewise_sandbox.up.ports import reserved_port
from zonewise_scheduler.admission.pod import Container, PodShape

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

RULES = sorted(MANIFESTS.rglob("alerts/rules.yaml"))


class Target(NamedTuple):
    """A program's port for metrics, and the labels that its PodMonitor adds."""

    job: str
    port: int
    scheme: str = "http"
    node: str = ""
    monitor: str = "components/pod-monitor"

    def config(self) -> dict[str, Any]:
        """Return the labelling part of the configuration that the operator derives from the PodMonitor."""
        monitor = yaml.safe_load((MANIFESTS / self.monitor / "pod-monitor.yaml").read_text())
        [endpoint] = monitor["spec"]["podMetricsEndpoints"]
        labels = {"namespace": monitor["metadata"]["namespace"], **({"node": self.node} if self.node else {})}
        return {
            "job_name": f"zonewise/zonewise-{self.job}",
            "honor_labels": endpoint.get("honorLabels", False),
            "scheme": self.scheme,
            "tls_config": {"insecure_skip_verify": True},
            "static_configs": [{"targets": [f"127.0.0.1:{self.port}"], "labels": labels}],
        }


class Prometheus:
    """A server that scrapes every second."""

    def __init__(self, directory: Path, targets: list[Target], port: int) -> None:
        program = shutil.which("prometheus")
        if program is None:
            pytest.skip("no prometheus on PATH")
        for file in RULES:
            (directory / f"{file.parts[-4]}.yaml").write_text(
                yaml.safe_dump({"groups": yaml.safe_load(file.read_text())["spec"]["groups"]})
            )
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(file) for file in directory.glob("*.yaml")],
            "scrape_configs": [target.config() for target in targets],
        }
        (directory / "prometheus.yml").write_text(yaml.safe_dump(config))
        self.url = f"http://127.0.0.1:{port}"
        flags = [
            f"--config.file={directory}/prometheus.yml", f"--web.listen-address=127.0.0.1:{port}",
            f"--storage.tsdb.path={directory}/data", "--log.level=error",
        ]  # fmt: skip
        with (directory / "log").open("wb") as log:
            self.process = subprocess.Popen(dying_with_us(program, *flags), stdout=log, stderr=log)
        eventually(self._is_ready)

    def query(self, expr: str) -> list[Any]:
        """Return the current samples of a query."""
        return self._get(f"query?{urllib.parse.urlencode({'query': expr})}")["result"]

    def rules(self) -> list[dict[str, Any]]:
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()

    def _get(self, path: str) -> Any:
        return urllib3.request("GET", f"{self.url}/api/v1/{path}", timeout=PATIENCE).json()["data"]

    def _is_ready(self) -> bool:
        with contextlib.suppress(urllib3.exceptions.HTTPError):
            return urllib3.request("GET", f"{self.url}/-/ready", timeout=PATIENCE, retries=False).status == 200
        return False


@contextlib.contextmanager
def agent_target(directory: Path) -> Generator[Target]:
    """Run an agent, on a server with GPUs and InfiniBand, and its kubelet."""
    root = lay_out(server_tree(), directory / "machine")
    with new_site() as site:
        agent = site.start("--root", str(root))
        eventually(lambda: site.topology() is not None)
        yield Target("agent", agent.port(), node=NODE)


@contextlib.contextmanager
def extender_target(directory: Path) -> Generator[Target]:
    """Run an extender that has filtered a pod, and serves its metrics over TLS."""
    certificate = trustme.CA().issue_cert("127.0.0.1")
    key, chain = directory / "tls.key", directory / "tls.crt"
    certificate.private_key_pem.write_to_path(str(key))
    certificate.cert_chain_pems[0].write_to_path(str(chain))
    tls = ("--metrics-tls-cert", str(chain), "--metrics-tls-key", str(key))
    with new_cluster() as cluster:
        cluster.add_node("n")
        cluster.publish(plain_nrt("n", (8, 8)))
        with running_extender("--api-server", cluster.server.url, *tls) as extender:
            caller = Caller(extender)
            shape = PodShape((Container("main", "app", 2000, (("memory", 1 << 30),)),), "Guaranteed")
            pod = cluster.create(build_pod("p", shape))
            eventually(lambda: caller.filter(pod, ["n"]).status == 200)
            caller.close()
            yield Target("scheduler", extender.ports[1], scheme="https", monitor="scheduler/components/pod-monitor")


@contextlib.contextmanager
def controller_target() -> Generator[Target]:
    """Run a controller with a Cohort, in whose queue some jobs are admitted, one is evicted and others wait."""
    with simulated_live_cluster() as cluster:
        cluster.add_nodes(2)
        cluster.create("resourceflavors", "ResourceFlavor", "all", {})
        cluster.create("cohorts", "Cohort", "everyone", {})
        spec = cluster_queue_spec({"cpu": "8"}, "all", cohortName="everyone")
        cluster.create("clusterqueues", "ClusterQueue", "queue", spec)
        cluster.create("namespaces/default/localqueues", "LocalQueue", "queue", {"clusterQueue": "queue"})
        jobs = [f"job-{index}" for index in range(4)]
        for name in jobs:
            cluster.submit(name, 4, run=3600)
        with cluster.controller("--metrics-listen", "127.0.0.1:0") as controller:
            controller.until(lambda: "serving on port" in controller.said)
            port = int(controller.said.rpartition("serving on port ")[2].split()[0].strip('"}'))
            eventually(lambda: any(cluster.running_pods(name) for name in jobs))
            evicted = next(entry for entry in cluster.workloads() if "admission" in entry.get("status", {}))
            path = f"{WORKLOADS}/{evicted['metadata']['name']}"
            cluster.api.patch(path, {"spec": {"active": False}}).ok()
            eventually(lambda: "admission" not in cluster.api.get(path).ok()["status"])
            yield Target("controller", port, monitor="queue/components/pod-monitor")


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Generator[Prometheus]:
    if shutil.which("prometheus") is None:
        pytest.skip("no prometheus on PATH")
    with contextlib.ExitStack() as stack:
        targets = [
            stack.enter_context(agent_target(tmp_path_factory.mktemp("agent"))),
            stack.enter_context(extender_target(tmp_path_factory.mktemp("extender"))),
            stack.enter_context(controller_target()),
        ]
        server = Prometheus(tmp_path_factory.mktemp("prometheus"), targets, stack.enter_context(reserved_port()))
        yield stack.enter_context(contextlib.closing(server))


def test_every_panel_has_data(prometheus: Prometheus) -> None:
    """A rate needs two scrapes, and programs need a moment for their first work."""
    remaining = {
        query.expr: panel.title
        for board in DASHBOARDS
        for row in board.rows
        for panel in row.panels
        for query in panel.queries
    }
    started = time.monotonic()
    while remaining and time.monotonic() - started < PATIENCE:
        remaining = {expr: title for expr, title in remaining.items() if not prometheus.query(expr)}
        pause(time.monotonic() - started)
    assert remaining == {}


def test_local_queues_have_their_own_namespace(prometheus: Prometheus) -> None:
    """The label `namespace` of a series is not that of the controller's pod."""
    query = "count by (namespace) (kueue_local_queue_pending_workloads)"
    eventually(lambda: [sample["metric"]["namespace"] for sample in prometheus.query(query)] == ["default"])


def test_every_target_is_up_and_every_rule_is_evaluated(prometheus: Prometheus) -> None:
    eventually(lambda: [sample["value"][1] for sample in prometheus.query("up")] == ["1"] * 3)
    eventually(lambda: all(rule["health"] == "ok" for rule in prometheus.rules()))
    assert {rule["name"] for rule in prometheus.rules() if rule["type"] == "alerting"}


def test_a_healthy_cluster_has_no_firing_alert(prometheus: Prometheus) -> None:
    """No alert fires; only alerts about the time since the start may be pending."""
    eventually(lambda: prometheus.query("zonewise_leader == 1"))
    assert [rule["name"] for rule in prometheus.rules() if rule.get("state") == "firing"] == []
