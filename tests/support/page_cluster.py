"""A cluster for the page: nodes of several makes in blocks and racks, queues in cohorts, running and pending jobs.

The queue is the real controller on objects of the test. Its writes of Workloads take effect at once. Jobs and pods have
no controllers, so pods are bound as soon as a Workload has quota.
"""

from __future__ import annotations

import copy
import json
import random
import threading
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from support.extender import build_nrt
from zonewise_common.k8s.cpuset import CpuSet
from zonewise_common.kube.resources import (
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    NAMESPACES,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    WORKLOADS,
    Resource,
)
from zonewise_common.nrt import names
from zonewise_common.nrt.holdings import Holdings, holdings_key, write_holdings
from zonewise_sandbox.apiserver.patches.merge_patch import merge_patch
from zonewise_scheduler.admission.cpu_topology import CpuTopology
from zonewise_scheduler.admission.node import DeviceClass, NodeKind, Policies, idle_node
from zonewise_scheduler.backfill.policies import BackfillPolicy
from zonewise_scheduler.backfill.recording.planner_feed import PlannerFeed
from zonewise_scheduler.backfill.types import Forecast, Plan
from zonewise_scheduler.controller.controller import QueueController
from zonewise_scheduler.controller.jobs.registry import adapters_by_kind
from zonewise_scheduler.controller.metrics import ControllerMetrics
from zonewise_scheduler.controller.nodes.observed_objects import decode_node, decode_report
from zonewise_scheduler.controller.observed_pod import decode_observed_pod
from zonewise_scheduler.controller.planning.configuration import ConfigurationObjects
from zonewise_scheduler.controller.status.reporter import StatusReporter
from zonewise_scheduler.controller.status_handler import ControllerStatusHandler
from zonewise_scheduler.controller.types import ObjectKey, Write
from zonewise_scheduler.controller.workloads.conditions import api_time
from zonewise_scheduler.controller.writing.outcome import Outcome
from zonewise_scheduler.quota.api.configuration import DEFAULT_SETTINGS
from zonewise_scheduler.tas.cluster_nodes import ClusterNodes

if TYPE_CHECKING:
    from collections.abc import Callable

Json = dict[str, Any]

GIB = 1 << 30
HOSTNAME, RACK, BLOCK = "kubernetes.io/hostname", "topology.kubernetes.io/rack", "topology.kubernetes.io/block"
GPU = "nvidia.com/gpu"
HOUR = 3600.0
_TEAMS = {"research": ("llm", "vision", "speech"), "product": ("search", "ranking"), "science": ("climate", "genome")}
"""ClusterQueues by Cohort; the cohorts are children of one cohort."""
_STEMS = ("train", "finetune", "eval", "pretrain", "ablation", "sweep", "export", "simulate", "infer")


class Watches:
    """Informers whose caches are always current."""

    unsynced: list[str] = []  # noqa: RUF012
    ages = {"workloads": 0.5}  # noqa: RUF012


def _kind(zones: int, cores: int, gpus: int) -> NodeKind:
    every = zones * cores

    def cpus(first: int, count: int) -> int:
        bits = (1 << count) - 1 << first
        return bits | bits << every

    topology = CpuTopology(
        cores=tuple((core, cpus(core, 1)) for core in range(every)),
        zones=tuple((zone, cpus(zone * cores, cores)) for zone in range(zones)),
        packages=tuple((zone, cpus(zone * cores, cores)) for zone in range(zones)),
        reserved=cpus(0, 1),
    )
    return NodeKind(
        Policies(topology="single-numa-node" if gpus else "best-effort", cpu="static", memory="Static"),
        tuple(range(zones)),
        tuple(tuple(10 if a == b else 21 for b in range(zones)) for a in range(zones)),
        topology,
        ("memory",),
        ((480 * GIB,),) * zones,
        tuple(DeviceClass(GPU, 1 << zone, gpus // zones, gpus // zones) for zone in range(zones)) if gpus else (),
    )


MAKES = {"h100": _kind(2, 48, 8), "a100": _kind(4, 16, 4), "cpu": _kind(2, 64, 0)}


class _Node:
    """One node, and the resources that its kubelet has assigned."""

    def __init__(self, name: str, block: int, rack: int, make: str, state: str) -> None:
        self.name, self.make = name, make
        self.kind = MAKES[make]
        self.state = idle_node(self.kind)
        self.held: dict[str, tuple[str, Holdings]] = {}
        """Namespace and holdings by pod name."""
        cpus = sum(bits.bit_count() for _, bits in self.kind.cpus.zones) - 2
        amounts = {"cpu": str(cpus), "memory": f"{len(self.kind.zones) * 480}Gi", "pods": "110"}
        if self.kind.devices:
            amounts[GPU] = str(sum(device.healthy for device in self.kind.devices))
        labels = {HOSTNAME: name, BLOCK: f"block-{block}", RACK: f"rack-{block}-{rack:02}", "make": make}
        ready = {"type": "Ready", "status": "False" if state == "NotReady" else "True",
                 "lastTransitionTime": "2026-01-01T00:00:00Z"}  # fmt: skip
        self.obj: Json = {
            "metadata": {"name": name, "labels": labels},
            "spec": {"unschedulable": state == "Unschedulable"},
            "status": {"allocatable": amounts, "capacity": amounts, "conditions": [ready]},
        }

    def admit(self, namespace: str, pod: str, cpus: int, gpus: int) -> bool:
        """Assign CPUs and GPUs of one zone; return False if no zone has enough."""
        for index, zone in enumerate(self.kind.zones):
            free = [cpu for cpu in range(self.state.free_cpus.bit_length()) if self.state.free_cpus >> cpu & 1]
            zone_cpus = dict(self.kind.cpus.zones)[zone]
            own = [cpu for cpu in free if zone_cpus >> cpu & 1][:cpus]
            if len(own) < cpus or (gpus and self.state.device_free[index] < gpus):
                continue
            bits = sum(1 << cpu for cpu in own)
            amounts = [("memory", 1 << zone, cpus * 4 * GIB)] + ([(GPU, 1 << zone, gpus)] if gpus else [])
            self.held[pod] = namespace, Holdings(bits, tuple(sorted(amounts)))
            self._set(bits, index, -cpus * 4 * GIB, -gpus)
            return True
        return False

    def end(self, pod: str) -> None:
        """Free a pod's resources."""
        _, held = self.held.pop(pod)
        index = next(i for i, zone in enumerate(self.kind.zones) if dict(self.kind.cpus.zones)[zone] & held.cpus)
        amounts = {name: amount for name, _, amount in held.amounts}
        self._set(held.cpus, index, amounts["memory"], amounts.get(GPU, 0))

    def _set(self, cpus: int, index: int, memory: int, gpus: int) -> None:
        rows = tuple((row[0] + (memory if i == index else 0),) for i, row in enumerate(self.state.memory_free))
        devices = tuple(n + (gpus if i == index else 0) for i, n in enumerate(self.state.device_free))
        self.state = self.state._replace(free_cpus=self.state.free_cpus ^ cpus, memory_free=rows, device_free=devices)

    def report(self) -> bytes:
        """Return the agent's report."""
        nrt = build_nrt("", self.state)
        nrt["metadata"] = {"name": self.name}
        nrt["attributes"].append({"name": names.HOLDINGS, "value": ""})
        held = ((holdings_key(namespace, pod), each) for pod, (namespace, each) in self.held.items())
        cpus = {zone: CpuSet.from_bits(bits) for zone, bits in self.kind.cpus.zones}
        texts = write_holdings(held, cpus)
        for zone in nrt["zones"]:
            number = int(zone["name"].rpartition("-")[2])
            if zone["type"] == "Node" and texts.get(number):
                zone["attributes"].append({"name": names.HOLDINGS, "value": texts[number]})
        return json.dumps(nrt).encode()


class PageCluster:
    """A cluster with running and pending jobs."""

    def __init__(
        self,
        nodes: int,
        running: int,
        pending: int,
        now: float,
        seed: int = 1,
        *,
        timer: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """Create this many nodes, and about this many running and pending jobs; `now`: seconds since 1970.

        `timer`: the clock, in seconds, by which the reporter limits its own time. By default nothing takes any time.
        """
        self.now = now
        self._random = random.Random(seed)
        self._version = 1000
        self._serial = 0
        self._lock = threading.Lock()
        self._workloads: dict[str, Json] = {}
        self._pods: dict[str, list[tuple[_Node, str]]] = {}
        """By Workload key."""
        policy = BackfillPolicy(reserve_after=0.0, depth=3)
        self.controller = QueueController(
            PlannerFeed(policy, DEFAULT_SETTINGS, ClusterNodes()),
            adapters_by_kind(),
            ConfigurationObjects(),
            run_pass=self._run_pass,
        )
        self.plans = True
        """Whether passes decide; otherwise the plan does not change."""
        self.metrics = ControllerMetrics(lambda: 0.0)
        self._submitted: list[Write] = []
        """Writes of statuses and notes."""
        self.reporter = StatusReporter(
            self.controller, self._submitted.append, lambda _: None, self.metrics, timer, fair_sharing=True
        )
        self.nodes = [self._node(i, nodes) for i in range(nodes)]
        self._by_name = {node.name: node for node in self.nodes}
        self._used: dict[tuple[str, str, str], int] = {}
        """By ClusterQueue, flavor and resource."""
        self._by_make = {make: [node for node in self.nodes if node.make == make] for make in MAKES}
        for _ in range(running):
            self._start_one(age=self._random.expovariate(1 / (2 * HOUR)))
        self._configure()
        for node in self.nodes:
            self._show_node(node)
        for i in range(pending):
            self._submit(age=(pending - i) * 30.0)
        self.controller.lead(True)
        self.step()
        self.forecast()

    # --- methods that clients call

    def ask(self, function: Callable[[QueueController], Any], timeout: float) -> Any:
        """Call a function with the controller and return its result, as the loop does."""
        del timeout
        with self._lock:
            return function(self.controller)

    def handler(self) -> ControllerStatusHandler:
        """Return the handler that serves the cluster."""
        return ControllerStatusHandler(
            self.reporter, self.metrics.registry, Watches(), self.ask, lambda: self.now, stale_after=30.0
        )

    # --- events

    def step(self, seconds: float = 0.0) -> None:
        """Advance the clock, and run one step of the controller."""
        with self._lock:
            self.now += seconds
            for write in self.controller.step(self.now):
                self._carry_out(write)
            self.reporter.step(self.now)
            submitted, self._submitted[:] = list(self._submitted), []
            for write in submitted:
                self._carry_out(write)

    def _run_pass(self, feed: PlannerFeed, at: float, most: int) -> Plan:
        return feed.run_pass(at, most) if self.plans else Plan()

    def churn(self, count: int) -> None:
        """End some jobs and submit new ones; if no passes run, start others."""
        with self._lock:
            for key in self._random.sample(sorted(self._pods), min(count, len(self._pods))):
                self._finish(key)
            for _ in range(count):
                self._submit(age=0.0)
                if not self.plans:
                    self._show_all(self._start_one(age=0.0))

    def forecast(self) -> None:
        """Set forecasts for the first workloads of each queue."""
        state = self.controller.feed.state
        forecasts: dict[str, Forecast] = {}
        for queue in state.pending_queues.values():
            start = self.now
            for key in islice(queue.heap.sorted_keys(state.snapshot.local_queue_usage), 10):
                start += self._random.uniform(300, 2400)
                spread = (start - self.now) * self._random.uniform(0.2, 0.6)
                forecasts[key] = Forecast(max(start - spread, self.now), start, start + 2 * spread)
        self.reporter.forecasts = forecasts

    # --- helpers

    def _node(self, i: int, count: int) -> _Node:
        per_rack, racks = (16, 8) if count > 200 else (4, 2)
        rack = i // per_rack
        make = "cpu" if rack % 5 == 4 else "a100" if rack % 5 == 3 else "h100"
        state = "NotReady" if i % 397 == 5 else "Unschedulable" if i % 211 == 9 else "Ready"
        return _Node(f"{make}-{i:04}", rack // racks, rack % racks, make, state)

    def _configure(self) -> None:
        self._observe(NAMESPACES, "", "batch", {})
        levels = [{"nodeLabel": label} for label in (BLOCK, RACK, HOSTNAME)]
        self._observe(TOPOLOGIES, "", "racks", {"spec": {"levels": levels}})
        for make in MAKES:
            spec = {"nodeLabels": {"make": make}, "topologyName": "racks"}
            self._observe(RESOURCE_FLAVORS, "", make, {"spec": spec})
        self._observe(COHORTS, "", "company", {"spec": {}})
        queues = [queue for members in _TEAMS.values() for queue in members]
        totals: dict[tuple[str, str], int] = {}
        for (_, flavor, resource), amount in self._used.items():
            totals[flavor, resource] = totals.get((flavor, resource), 0) + amount
        for team, members in _TEAMS.items():
            self._observe(COHORTS, "", team, {"spec": {"parentName": "company"}})
            for queue in members:
                flavors = [
                    {"name": make, "resources": [
                        {"name": resource, "nominalQuota": str(-(-totals.get((make, resource), 0) // len(queues)))}
                        for resource in ("cpu", GPU)
                    ]}
                    for make in MAKES
                ]  # fmt: skip
                group = {"coveredResources": ["cpu", GPU], "flavors": flavors}
                spec: Json = {"namespaceSelector": {}, "cohortName": team, "resourceGroups": [group]}
                self._observe(CLUSTER_QUEUES, "", queue, {"spec": spec})
                self._observe(LOCAL_QUEUES, "batch", queue, {"spec": {"clusterQueue": queue}})

    def _observe(self, resource: Resource, namespace: str, name: str, obj: Json) -> Json:
        self._version += 1
        obj.setdefault("metadata", {})
        obj["metadata"] |= {"namespace": namespace, "name": name, "resourceVersion": str(self._version)}
        obj["metadata"].setdefault("uid", f"u-{name}")
        self.controller.observe(ObjectKey(resource, namespace, name), obj, self.now)
        return obj

    def _show_node(self, node: _Node) -> None:
        raw = msgspec.Raw(msgspec.json.encode(node.obj))
        self.controller.observe_node(node.name, decode_node(raw))
        self.controller.observe_report(node.name, decode_report(node.report()))

    def _workload(self, pods: int, cpus: int, gpus: int, age: float) -> Json:
        self._serial += 1
        queue = self._random.choice([queue for members in _TEAMS.values() for queue in members])
        requests = {"cpu": str(cpus)} | ({GPU: str(gpus)} if gpus else {})
        container = {"name": "c", "image": "train:v1", "resources": {"requests": requests, "limits": requests}}
        pod_set = {"name": "main", "count": pods, "template": {"spec": {"containers": [container]}},
                   "topologyRequest": {"preferred": RACK}}  # fmt: skip
        name = f"{self._random.choice(_STEMS)}-{queue}-{self._serial:05}"
        metadata = {"name": name, "namespace": "batch", "creationTimestamp": api_time(self.now - age - 60),
                    "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": name,
                                         "controller": True}]}  # fmt: skip
        walltime = self._random.choice((1, 2, 4, 8, 12, 24)) * 3600
        spec = {"queueName": queue, "priority": self._random.choice((0, 0, 0, 50, 100)), "podSets": [pod_set],
                "maximumExecutionTimeSeconds": walltime}  # fmt: skip
        return {"metadata": metadata, "spec": spec}

    def _submit(self, age: float) -> None:
        gpus = self._random.choice((8, 8, 4, 2))
        pods = self._random.choice((1, 2, 4, 8, 16, 32))
        obj = self._workload(pods, 6 * gpus, gpus, age)
        name = obj["metadata"]["name"]
        self._workloads[f"batch/{name}"] = self._observe(WORKLOADS, "batch", name, obj)

    def _show_all(self, hosts: list[_Node]) -> None:
        for node in hosts:
            self._show_node(node)

    def _start_one(self, age: float) -> list[_Node]:
        """Start a job if it fits, and return its nodes."""
        make = self._random.choices(("h100", "a100", "cpu"), (5, 2, 2))[0]
        gpus = {"h100": self._random.choice((8, 4, 2, 1)), "a100": self._random.choice((1, 1, 2)), "cpu": 0}[make]
        cpus = 6 * gpus or self._random.choice((8, 16, 32))
        pods = self._random.choice((1, 2, 4, 8, 16, 32))
        cluster = self._by_make[make]
        if not cluster:
            return []
        parts = -(-gpus // cluster[0].kind.devices[0].healthy) if gpus else 1
        obj = self._workload(pods, cpus, gpus, age)
        name, hosts = obj["metadata"]["name"], list[_Node]()
        first = self._random.randrange(len(cluster))
        for i in range(min(len(cluster), 4 * pods)):
            node = cluster[(first + i) % len(cluster)]
            if len(hosts) < pods and self._admit(node, f"{name}-{len(hosts)}", cpus, gpus, parts):
                hosts.append(node)
        if hosts:
            self._run(obj, name, hosts, cpus, gpus, make)
        return hosts

    def _admit(self, node: _Node, pod: str, cpus: int, gpus: int, parts: int) -> bool:
        """Assign a pod its share of each of several zones."""
        if node.obj["status"]["conditions"][0]["status"] != "True" or (parts > 1 and node.held):
            return False
        if parts == 1:
            return node.admit("batch", pod, cpus, gpus)
        ends = [node.admit("batch", f"{pod}.{i}", cpus // parts, gpus // parts) for i in range(parts)]
        if not all(ends):
            for i in range(parts):
                if f"{pod}.{i}" in node.held:
                    node.end(f"{pod}.{i}")
            return False
        bits, amounts = 0, list[tuple[str, int, int]]()
        for i in range(parts):
            _, held = node.held.pop(f"{pod}.{i}")
            bits, amounts = bits | held.cpus, [*amounts, *held.amounts]
        node.held[pod] = "batch", Holdings(bits, tuple(sorted(amounts)))
        return True

    def _run(self, obj: Json, name: str, hosts: list[_Node], cpus: int, gpus: int, make: str) -> None:
        pods = len(hosts)
        obj["spec"]["podSets"][0]["count"] = pods
        queue = obj["spec"]["queueName"]
        usage = {"cpu": str(cpus * pods)} | ({GPU: str(gpus * pods)} if gpus else {})
        for resource, amount in usage.items():
            self._used[queue, make, resource] = self._used.get((queue, make, resource), 0) + int(amount)
        values = {"individual": {"roots": sorted(node.name for node in hosts)}}
        slices = [{"domainCount": pods, "podCounts": {"universal": 1}, "valuesPerLevel": [values]}]
        assignment = {"name": "main", "count": pods, "flavors": dict.fromkeys(usage, make), "resourceUsage": usage,
                      "topologyAssignment": {"levels": [HOSTNAME], "slices": slices}}  # fmt: skip
        at = obj["metadata"]["creationTimestamp"]
        obj["status"] = {
            "admission": {"clusterQueue": queue, "podSetAssignments": [assignment]},
            "conditions": [
                {"type": kind, "status": "True", "reason": kind, "message": f"by ClusterQueue {queue}",
                 "lastTransitionTime": at}
                for kind in ("QuotaReserved", "Admitted")
            ],
        }  # fmt: skip
        key = f"batch/{name}"
        self._workloads[key] = self._observe(WORKLOADS, "batch", name, obj)
        self._pods[key] = []
        for i, node in enumerate(hosts):
            self._show_pod(key, f"{name}-{i}", node, cpus, gpus, "Running")
            self._pods[key].append((node, f"{name}-{i}"))

    def _bind(self, key: str) -> None:
        """Bind the pods of a Workload that has quota, as if their kubelets admitted them."""
        admission = self.controller.feed.state.running[key].workload.admission
        if admission is None:
            return
        container = self._workloads[key]["spec"]["podSets"][0]["template"]["spec"]["containers"][0]
        requests = container["resources"]["requests"]
        cpus, gpus = int(requests["cpu"]), int(requests.get(GPU, 0))
        assignment = admission.pod_sets[0].topology_assignment
        self._pods[key] = []
        for values, count in () if assignment is None else assignment.domains:
            node = self._by_name[values[-1]]
            for _ in range(count):
                pod = f"{key.partition('/')[2]}-{len(self._pods[key])}"
                half = next((i for i in (1, 2, 4) if gpus <= i * node.kind.devices[0].healthy), 4) if gpus else 1
                if self._admit(node, pod, cpus, gpus, half):
                    self._pods[key].append((node, pod))
                self._show_pod(key, pod, node, cpus, gpus, "Running")
            self._show_node(node)

    def _show_pod(self, key: str, pod: str, node: _Node, cpus: int, gpus: int, phase: str) -> None:
        requests = {"cpu": str(cpus), "memory": f"{cpus * 4}Gi"} | ({GPU: str(gpus)} if gpus else {})
        self._version += 1
        obj = {
            "metadata": {"namespace": "batch", "name": pod, "resourceVersion": str(self._version),
                         "annotations": {"kueue.x-k8s.io/workload": key.partition("/")[2]},
                         "labels": {"kueue.x-k8s.io/podset": "main", "kueue.x-k8s.io/managed": "true"}},
            "spec": {"nodeName": node.name, "containers": [{"name": "c", "resources": {"requests": requests}}]},
            "status": {"phase": phase},
        }  # fmt: skip
        self.controller.observe_pod("batch", pod, decode_observed_pod(msgspec.Raw(msgspec.json.encode(obj))))

    def _finish(self, key: str) -> None:
        for node, pod in self._pods.pop(key):
            held = node.held[pod][1]
            if len({index for index, (_, bits) in enumerate(node.kind.cpus.zones) if bits & held.cpus}) == 1:
                node.end(pod)
            else:
                del node.held[pod]
                node.state = idle_node(node.kind)
            self._show_pod(key, pod, node, 1, 0, "Succeeded")
            self._show_node(node)
        obj = copy.deepcopy(self._workloads.pop(key))
        obj["status"]["conditions"].append(
            {"type": "Finished", "status": "True", "reason": "JobFinished", "message": "Job finished successfully",
             "lastTransitionTime": api_time(self.now)}
        )  # fmt: skip
        self._observe(WORKLOADS, "batch", obj["metadata"]["name"], obj)

    def _carry_out(self, write: Write) -> None:
        """Apply a write of a Workload, and ignore all others."""
        known = self._workloads.get(write.key.namespaced_name)
        if write.key.resource != WORKLOADS or known is None or not isinstance(write.body, dict):
            self._end(write, Outcome("stale", message="not of this test"))
            return
        self._version += 1
        obj = merge_patch(copy.deepcopy(known), copy.deepcopy(write.body))
        obj["metadata"]["resourceVersion"] = str(self._version)
        self._workloads[write.key.namespaced_name] = obj
        self._end(write, Outcome("done", obj))
        if write.purpose == "admit" and write.key.namespaced_name not in self._pods:
            self._bind(write.key.namespaced_name)

    def _end(self, write: Write, outcome: Outcome) -> None:
        if not self.reporter.end_write(write, outcome, self.now):
            self.controller.end_write(write, outcome, self.now)
