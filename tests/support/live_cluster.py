"""A cluster that runs Jobs: API server, Job controller, simulated nodes, and processes of `zonewise controller`.

It is in memory, or real: kube-apiserver, etcd and kube-controller-manager, with the simulated nodes.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from support.api import Api
from support.apiserver import real_apiserver
from support.controller_manager import real_controller_manager
from support.kubelets import short_directory
from support.live_queue import KUEUE_CRDS
from support.programs import Watched
from support.queue_objects import cluster_queue_spec
from support.waiting import PATIENCE, eventually
from zonewise_common.kube.config import Config
from zonewise_sandbox.apiserver import ApiServer
from zonewise_sandbox.jobcontroller import JobController
from zonewise_sandbox.podrunner import PodRunner, RunnerSettings

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from pathlib import Path

    from support.apiserver import RealServer

Json = dict[str, Any]

NAMESPACE = "default"
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
WORKLOADS = f"{KUEUE}/namespaces/{NAMESPACE}/workloads"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
GROUP_LABEL = "kueue.x-k8s.io/pod-group-name"
RUN_SECONDS = "zonewise.dev/simulated-run-seconds"
STOP_SECONDS = "zonewise.dev/simulated-stop-seconds"


class ControllerProcess(Watched):
    def __init__(self, directory: Path, *flags: str) -> None:
        number = len(list(directory.glob("controller-*")))
        log = directory / f"controller-{number}.log"
        command = [sys.executable, "-m", "zonewise", "controller", "--metrics-listen", "", *flags]
        environment = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "LANG"}}
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment)
        super().__init__(process, log)
        self.is_killed = False
        self.until(lambda: "the controller starts" in self.said)

    def terminate(self) -> int:
        """Send SIGTERM as a kubelet does; return the exit status."""
        self.is_killed = True
        self.process.terminate()
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        """Kill the process at once, as a node failure does."""
        self.is_killed = True
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class LiveCluster(NamedTuple):
    """A cluster and the connection settings of controllers."""

    api: Api
    directory: Path
    flags: tuple[str, ...]
    real: bool

    @contextlib.contextmanager
    def controller(self, *flags: str) -> Generator[ControllerProcess]:
        """Run a controller, without leader election unless the flags enable it."""
        election = () if "--leader-election" in flags else ("--leader-election", "false")
        process = ControllerProcess(self.directory, *self.flags, *election, *flags)
        try:
            yield process
            assert process.is_killed or process.process.poll() is None, process.said
        finally:
            process.kill()
        assert "Traceback" not in process.said, process.said

    def add_nodes(self, count: int, cpus: int = 8, first: int = 0) -> None:
        """Add simulated nodes; `first`: the number of the first one."""
        amounts = {"cpu": str(cpus), "pods": "110", "memory": "64Gi"}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
        for i in range(first, first + count):
            name = f"node-{i}"
            labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
            node = {"metadata": {"name": name, "labels": labels},
                    "status": {"allocatable": amounts, "capacity": amounts, "conditions": [ready]}}  # fmt: skip
            self.api.post("/api/v1/nodes", node).ok()
            self.api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": []}}).ok()

    def add_queue(
        self,
        cpus: int,
        *,
        topology: bool = False,
        preemption: Json | None = None,
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Add a ClusterQueue with a quota and a LocalQueue `queue`; with `topology`, the queue places pods on nodes.

        `more`: quotas of other resources.
        """
        if topology:
            self.create("topologies", "Topology", "nodes", {"levels": [{"nodeLabel": "kubernetes.io/hostname"}]})
        flavor = {"nodeLabels": {"kubernetes.io/os": "linux"}, "topologyName": "nodes"} if topology else {}
        self.create("resourceflavors", "ResourceFlavor", "all", flavor)
        spec = cluster_queue_spec({"cpu": str(cpus), **more}, "all", preemption=preemption or {})
        self.create("clusterqueues", "ClusterQueue", "queue", spec)
        self.create(f"namespaces/{NAMESPACE}/localqueues", "LocalQueue", "queue", {"clusterQueue": "queue"})

    def create(self, path: str, kind: str, name: str, spec: Json, **fields: Any) -> None:
        """Create an object of Kueue's API group."""
        version = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}}
        self.api.post(f"{KUEUE}/{path}", {**version, **({"spec": spec} if spec or not fields else {}), **fields}).ok()

    def submit(
        self,
        name: str,
        cpus: int = 1,
        *,
        pods: int = 1,
        run: float = 3600,
        stop: int = 0,
        priority: str = "",
        topology: str = "",
        queue: str = "queue",
        ports: tuple[Json, ...] = (),
        **fields: Any,
    ) -> None:
        """Create a held Job whose pods run for some seconds. `topology`: the level at which all pods share one domain.

        `stop`: the seconds that a deleted pod takes to end. `ports`: the ports of each pod's container. `fields`: other
        fields of the Job's spec.
        """
        labels = {QUEUE_LABEL: queue} | ({"kueue.x-k8s.io/priority-class": priority} if priority else {})
        container: Json = {"name": "c", "image": "none", "resources": {"requests": {"cpu": str(cpus)}}}
        container |= {"ports": list(ports)} if ports else {}
        pod_spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": stop or 1, "containers": [container]}
        annotations = {RUN_SECONDS: str(run), STOP_SECONDS: str(stop)}
        if topology:
            annotations["kueue.x-k8s.io/podset-preferred-topology"] = topology
        template = {"metadata": {"annotations": annotations}, "spec": pod_spec}
        spec = {
            "completionMode": "Indexed",
            "suspend": True,
            "parallelism": pods,
            "completions": pods,
            "template": template,
            "backoffLimit": 0,
            **fields,
        }
        self.api.post(JOBS, {"metadata": {"name": name, "labels": labels}, "spec": spec}).ok()

    def add_group(self, name: str, pods: int, cpus: int = 1, run: float = 3600) -> None:
        """Create the pods of a group as the webhook changes them: with labels, a gate and a finalizer."""
        container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": str(cpus)}}}
        for i in range(pods):
            labels = {QUEUE_LABEL: "queue", "kueue.x-k8s.io/managed": "true", GROUP_LABEL: name}
            annotations = {"kueue.x-k8s.io/pod-group-total-count": str(pods), RUN_SECONDS: str(run)}
            metadata = {"name": f"{name}-{i}", "labels": labels, "annotations": annotations,
                        "finalizers": ["kueue.x-k8s.io/managed"]}  # fmt: skip
            gates = [{"name": "kueue.x-k8s.io/admission"}]
            spec = {"restartPolicy": "Never", "containers": [container], "schedulingGates": gates}
            self.api.post(PODS, {"metadata": metadata, "spec": spec}).ok()

    def group_phases(self, name: str) -> list[str]:
        """Return the phases of the group's existing pods."""
        pods = self.api.get(PODS, labelSelector=f"{GROUP_LABEL}={name}").ok()["items"]
        return [entry["status"].get("phase", "") for entry in pods]

    def job(self, name: str) -> Json:
        return self.api.get(f"{JOBS}/{name}").ok()

    def is_held(self, name: str) -> bool:
        """Return whether a Job is suspended."""
        return bool(self.job(name)["spec"].get("suspend"))

    def pods(self, name: str) -> list[Json]:
        """Return the pods of a Job."""
        return self.api.get(PODS, labelSelector=f"batch.kubernetes.io/job-name={name}").ok()["items"]

    def running_pods(self, name: str) -> list[Json]:
        """Return the running pods of a Job."""
        return [entry for entry in self.pods(name) if entry["status"].get("phase") == "Running"]

    def fail_pod(self, pod: Json, exit_code: int) -> None:
        """End a pod as its kubelet does after its container has exited."""
        terminated = {"exitCode": exit_code, "reason": "Error"}
        container = {"name": "c", "image": "none", "imageID": "", "ready": False, "restartCount": 0}
        status = {"phase": "Failed", "containerStatuses": [{**container, "state": {"terminated": terminated}}]}
        self.api.patch(f"{PODS}/{pod['metadata']['name']}/status", {"status": status}).ok()

    def is_complete(self, name: str) -> bool:
        """Return whether a Job has succeeded."""
        conditions = self.job(name).get("status", {}).get("conditions", ())
        return any(entry["type"] == "Complete" and entry["status"] == "True" for entry in conditions)

    def lease_holder(self) -> str:
        """Return the identity of the leading controller; "" if the lease is free."""
        return self.api.get(f"{LEASES}/zonewise-controller").ok()["spec"].get("holderIdentity") or ""

    def workloads(self) -> list[Json]:
        return self.api.get(WORKLOADS).ok()["items"]

    def clear(self) -> None:
        """Delete all Jobs with their pods, all objects of Kueue's kinds, and what controllers leave behind."""
        for name in (entry["metadata"]["name"] for entry in self.api.get(JOBS).ok()["items"]):
            self.api.delete(f"{JOBS}/{name}", propagationPolicy="Background")
        for entry in self.api.get(PODS).ok()["items"]:
            self.api.patch(f"{PODS}/{entry['metadata']['name']}", {"metadata": {"finalizers": []}})
            self.api.delete(f"{PODS}/{entry['metadata']['name']}", gracePeriodSeconds=0)
        eventually(lambda: not self.api.get(JOBS).ok()["items"] and not self.api.get(PODS).ok()["items"])
        for path in (f"namespaces/{NAMESPACE}/workloads", f"namespaces/{NAMESPACE}/localqueues", "clusterqueues",
                     "resourceflavors", "workloadpriorityclasses", "topologies", "admissionchecks",
                     "provisioningrequestconfigs"):  # fmt: skip
            for entry in self.api.get(f"{KUEUE}/{path}").ok()["items"]:
                self.api.delete(f"{KUEUE}/{path}/{entry['metadata']['name']}")
        for entry in self.api.get("/api/v1/nodes").ok()["items"]:
            self.api.delete(f"/api/v1/nodes/{entry['metadata']['name']}")
        for path in (f"/api/v1/namespaces/{NAMESPACE}/configmaps", f"/api/v1/namespaces/{NAMESPACE}/events", LEASES):
            self.api.delete(path).ok()


@contextlib.contextmanager
def simulated_live_cluster(*, scheduled: bool = True) -> Generator[LiveCluster]:
    """Run a cluster in memory; `scheduled`: whether the pod runner replaces kube-scheduler."""
    crds = sorted(KUEUE_CRDS.glob("*s.yaml"))
    with (
        ApiServer(crds=crds) as server,
        JobController(server.client_config()),
        PodRunner(server.client_config(), _runner_settings(scheduled=scheduled)),
        short_directory() as directory,
    ):
        yield LiveCluster(Api(server.url), directory, ("--api-server", server.url), real=False)


@contextlib.contextmanager
def real_job_servers(*flags: str, scheduled: bool = True) -> Generator[tuple[RealServer, Path]]:
    """Run a real API server with extra flags, its controllers and simulated nodes; yield it and a socket directory."""
    with (
        real_apiserver(*flags) as server,
        real_controller_manager(server),
        short_directory() as directory,
        PodRunner(Config.from_url(server.url, server.token, ca=server.ca), _runner_settings(scheduled=scheduled)),
    ):
        yield server, directory


@contextlib.contextmanager
def real_live_cluster(*, scheduled: bool = True) -> Generator[LiveCluster]:
    """Run a real API server with its controllers, and simulated nodes; `scheduled` as in memory."""
    from support.e2e.cluster import write_kubeconfig

    with real_job_servers(scheduled=scheduled) as (server, directory):
        add_queue_kinds(server.admin)
        flags = ("--kubeconfig", str(write_kubeconfig(server, directory)))
        yield LiveCluster(server.admin, directory, flags, real=True)


def add_queue_kinds(api: Api) -> None:
    """Create the definitions of Kueue's kinds, and wait until they are served."""
    for file in sorted(KUEUE_CRDS.glob("*s.yaml")):
        definition = yaml.safe_load(file.read_text())
        api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).ok()
    eventually(lambda: api.get(f"{KUEUE}/clusterqueues").status == 200)


def _runner_settings(*, scheduled: bool) -> RunnerSettings:
    return RunnerSettings() if scheduled else RunnerSettings(schedulers=frozenset())
