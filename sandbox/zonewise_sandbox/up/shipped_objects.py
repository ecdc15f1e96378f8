"""The objects that a cluster contains from its start: nodes, reports, queues and webhooks, built from the manifests.

The manifests next to this module are links to those of the project. A wheel contains the files themselves.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from zonewise_sandbox.up.machines import MAX_PODS
from zonewise_sandbox.up.node_agents import SimulatedNode, idle_report

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zonewise_sandbox.up.machines import SimulatedMachine
    from zonewise_sandbox.up.node_agents import NodeReport
    from zonewise_sandbox.up.node_descriptions import NodeDescription, NodeSet

Json = dict[str, Any]

NAMESPACE = "zonewise"
"""Namespace of the controller's own objects."""
KUBELET_VERSION = "v1.36.0"
MANIFESTS = Path(__file__).parent / "manifests"
"""Links to files of the project's manifests; links to directories would be missing from an sdist."""


def definitions() -> list[Path]:
    """Return the files of the CustomResourceDefinitions."""
    return [
        MANIFESTS / "noderesourcetopologies.yaml",
        *sorted((MANIFESTS / "kueue-crds").glob("*s.yaml")),
    ]


def queue_objects(nodes: NodeSet) -> Iterator[Json]:
    """Yield the objects of the default queue, whose quota is all resources of the nodes."""
    totals = _totals(nodes.nodes)
    for obj in _documents(MANIFESTS / "queues.yaml"):
        if obj["kind"] == "Topology":
            obj["spec"]["levels"] = [{"nodeLabel": label} for label in nodes.levels]
        if obj["kind"] == "ClusterQueue":
            _set_quotas(obj["spec"]["resourceGroups"][0], totals)
        yield obj


def _set_quotas(group: Json, totals: dict[str, str]) -> None:
    """Give each flavor the nodes' totals as quota, including devices that the manifest does not list."""
    unlisted = [name for name in totals if name not in group["coveredResources"]]
    group["coveredResources"] += unlisted
    for flavor in group["flavors"]:
        flavor["resources"] += [{"name": name} for name in unlisted]
        for quota in flavor["resources"]:
            if quota["name"] != "ephemeral-storage":
                quota["nominalQuota"] = totals.get(quota["name"], "0")


def webhook_objects() -> list[Json]:
    """Return the webhook configurations of the controller.

    They have no conditions in CEL, which the server in memory does not evaluate. Conditions only save calls.
    """
    configurations = _documents(MANIFESTS / "webhooks.yaml")
    for configuration in configurations:
        for webhook in configuration["webhooks"]:
            webhook.pop("matchConditions", None)
    return configurations


def namespace_object() -> Json:
    """Return the namespace of the controller."""
    return {"metadata": {"name": NAMESPACE}}


class NodeObjects:
    """The Nodes and the reports of idle nodes; the agent of the first node of a kind computes those of all."""

    def __init__(self, now: str) -> None:
        """Create them with the time of creation, in the API's notation."""
        self._now = now
        self._reports: dict[int, NodeReport] = {}

    def node(self, description: NodeDescription) -> Json:
        """Return the Node, ready and with the labels of its agent."""
        machine, name = description.machine, description.name
        labels = {
            **self._report(machine).labels,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            **description.labels,
        }
        capacity = {resource: str(amount) for resource, amount in machine.capacity.items()}
        ready = {
            "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status",
            "lastHeartbeatTime": self._now, "lastTransitionTime": self._now,
        }  # fmt: skip
        info = {"architecture": "amd64", "operatingSystem": "linux", "kubeletVersion": KUBELET_VERSION,
                "kernelVersion": "", "osImage": "", "containerRuntimeVersion": "", "machineID": "", "systemUUID": "",
                "bootID": "", "kubeProxyVersion": ""}  # fmt: skip
        status = {"capacity": capacity, "allocatable": machine.allocatable, "conditions": [ready], "nodeInfo": info}
        return {"metadata": {"name": name, "labels": labels}, "status": status}

    def report(self, description: NodeDescription, uid: str) -> Json:
        """Return the NodeResourceTopology of an idle node, owned by the Node with this UID."""
        name, nrt = description.name, self._report(description.machine).nrt
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
        return {**nrt, "metadata": {**nrt["metadata"], "name": name, "ownerReferences": [owner]}}

    def _report(self, machine: SimulatedMachine) -> NodeReport:
        report = self._reports.get(id(machine))
        if report is None:
            report = self._reports[id(machine)] = idle_report(SimulatedNode("idle", machine))
        return report


def _totals(nodes: Iterable[NodeDescription]) -> dict[str, str]:
    """Return the total resources of all nodes, as quantities."""
    milli_cpus, amounts = 0, {"pods": 0}
    for node in nodes:
        capacity, reserved = node.machine.capacity, node.machine.config.reserved_milli_cpus
        milli_cpus += capacity.pop("cpu") * 1000 - reserved
        for name, amount in {**capacity, "pods": MAX_PODS}.items():
            amounts[name] = amounts.get(name, 0) + amount
    cpus = f"{milli_cpus}m" if milli_cpus % 1000 else str(milli_cpus // 1000)
    return {"cpu": cpus, **{name: str(amount) for name, amount in amounts.items()}}


def _documents(file: Path) -> list[Json]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # in C it is ten times faster, but not in every package
    return [document for document in yaml.load_all(file.read_text(), loader) if document]
