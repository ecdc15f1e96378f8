"""A cluster whose queues Kueue manages: its objects, a Job that Kueue has admitted, and the standby controller."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from support.api import Api
from support.kubelets import short_directory
from support.kueue_beside import FINALIZER, LEASE_NAME, leave_admitted_job, start_kueue
from support.live_cluster import KUEUE, WORKLOADS, LiveCluster
from support.live_queue import KUEUE_CRDS
from support.waiting import eventually
from zonewise_sandbox.apiserver import ApiServer
from zonewise_sandbox.jobcontroller import JobController
from zonewise_sandbox.podrunner import PodRunner, RunnerSettings
from zonewise_sandbox.up.ports import reserved_port
from zonewise_sandbox.up.program_threads import ProgramThread
from zonewise_scheduler.controller import main as controller_main
from zonewise_scheduler.controller.kueue.managed_condition import MANAGED_BY_KUEUE
from zonewise_scheduler.controller.settings import ControllerSettings
from zonewise_scheduler.controller.workloads.conditions import api_time, is_true

if TYPE_CHECKING:
    from collections.abc import Generator

Json = dict[str, Any]

NAMESPACE, CONTROLLER = "zonewise", "zonewise-controller"
_NAME = "kueue-controller-manager"
_DEPLOYMENT = f"/apis/apps/v1/namespaces/{LEASE_NAME.namespace}/deployments"


class KueueCluster(NamedTuple):
    """A cluster that Kueue manages."""

    live: LiveCluster
    url: str
    """The URL of the API server."""

    def stop_kueue(self) -> None:
        """Scale Kueue's Deployment to 0."""
        scaled = {"spec": {"replicas": 0}}
        self.live.api.patch(f"{_DEPLOYMENT}/{_NAME}", scaled).ok()

    def start_kueue(self) -> None:
        """Scale Kueue's Deployment to 1."""
        self.live.api.patch(f"{_DEPLOYMENT}/{_NAME}", {"spec": {"replicas": 1}}).ok()


@contextlib.contextmanager
def kueue_cluster() -> Generator[KueueCluster]:
    """Run a cluster with a queue of 8 CPUs, a running Job of 6 CPUs, and the controller on standby."""

    def services(namespace: str, name: str, _port: str) -> tuple[str, int] | None:
        return ("127.0.0.1", status_port) if (namespace, name) == (NAMESPACE, CONTROLLER) else None

    with (
        reserved_port() as status_port,
        ApiServer(crds=sorted(KUEUE_CRDS.glob("*s.yaml")), services=services) as server,
        JobController(server.client_config()),
        PodRunner(server.client_config(), RunnerSettings()),
        short_directory() as directory,
    ):
        live = LiveCluster(Api(server.url), directory, ("--api-server", server.url), real=False)
        _create_objects(live)
        settings = ControllerSettings(
            api_server=server.url,
            namespace=NAMESPACE,
            leader_election=False,
            metrics_listen=f"127.0.0.1:{status_port}",
            webhook_listen="",
        )
        with ProgramThread(
            "controller", lambda stop: controller_main.run_until_stopped(settings, stop, time.time)
        ) as program:
            eventually(
                lambda: program.error or is_true(live.api.get(f"{KUEUE}/clusterqueues/queue").ok(), MANAGED_BY_KUEUE)
            )
            assert program.error is None, program.error
            yield KueueCluster(live, server.url)


def _create_objects(live: LiveCluster) -> None:
    api = live.api
    api.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}).ok()
    live.add_nodes(2)
    live.add_queue(8)
    flavor = {"metadata": {"finalizers": [FINALIZER]}, "spec": {"nodeLabels": {"kubernetes.io/os": "linux"}}}
    api.patch(f"{KUEUE}/resourceflavors/all", flavor).ok()
    api.patch(f"{KUEUE}/clusterqueues/queue", {"metadata": {"finalizers": [FINALIZER]}}).ok()
    start_kueue(api)
    workload = leave_admitted_job(api, "simulation", 6, deadline=7200)
    conditions = [{**entry, "lastTransitionTime": api_time(time.time())} for entry in workload["status"]["conditions"]]
    api.patch(f"{WORKLOADS}/{workload['metadata']['name']}/status", {"status": {"conditions": conditions}}).ok()
    eventually(lambda: live.running_pods("simulation"))
    template: Json = {"metadata": {"labels": {"app": "kueue"}}, "spec": {"containers": [{"name": "m", "image": "i"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "kueue"}}, "template": template}
    api.post(_DEPLOYMENT, {"metadata": {"name": _NAME}, "spec": spec}).ok()
