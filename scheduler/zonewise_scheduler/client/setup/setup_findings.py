"""`zonewise check`: what is missing or does not match in the setup of a cluster.

Each finding is derived from objects, not from the names of Deployments, which each site chooses. A scheduler is judged
by the pods that it leaves alone, and an agent by its reports.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.phrases import first_names, of_number
from zonewise_scheduler.client.queues.queue_listing import readable_amount
from zonewise_scheduler.quota.api.amount import UNLIMITED, plus
from zonewise_scheduler.quota.api.gpu_resource import is_gpu

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from zonewise_scheduler.client.nodes.node_facts import NodeAvailability
    from zonewise_scheduler.client.queues.queue_facts import QueueFacts

OK, ABSENT, UNKNOWN, WARNING, ERROR = "ok", "absent", "unknown", "warning", "error"
"""Results of a check. Absent: the part is not installed. Unknown: the user may not read what the check needs."""
_MAX_NAMED = 3
"""Maximum number of inactive queues that are named; others are counted."""
_TOLERATED_EXCESS = 1.1
"""How much larger than its nodes a quota may be: many quotas are the nominal size of nodes, of which kubelets reserve a
part."""
_ZONEWISE = "zonewise"
"""The scheduler's name in manifests/scheduler."""


class SetupNode(NamedTuple):
    """A node and its labels."""

    facts: NodeAvailability
    labels: Mapping[str, str]


class ClusterSetup(NamedTuple):
    """The objects that the checks need; None if the user may not list them, or if the cluster lacks their kind."""

    nodes: Sequence[SetupNode] | None
    has_queues: bool
    """Whether the cluster serves Kueue's kinds."""
    cluster_queues: Sequence[QueueFacts] | None = None
    local_queues: Sequence[QueueFacts] | None = None
    flavors: Mapping[str, Mapping[str, str]] | None = None
    """The node labels of each ResourceFlavor."""
    unhandled_pods: Mapping[str, int] | None = None
    """For each schedulerName, how many pods no scheduler has looked at for a minute."""
    read_api_problem: str = ""
    """Why the controller does not respond; "" if it does."""
    may_have_device_classes: bool = False
    """Whether DeviceClasses exist, or the user may not list them."""
    agents: Mapping[str, bool] | None = None
    """For each node with a pod of the agent, whether the pod is ready; empty: no pod has the label of the manifests."""
    missing_webhook_service: str = ""
    """The Service that the webhooks of the controller call, if it does not exist."""


class Finding(NamedTuple):
    """The result of a check."""

    check: str
    result: str
    message: str
    remedy: str = ""


def setup_findings(setup: ClusterSetup) -> list[Finding]:
    """Return the findings about a cluster, at least one for each check."""
    checks: dict[str, Callable[[ClusterSetup], Iterator[Finding]]] = {
        "nodes": _nodes,
        "reports": _reports,
        "alignment": _alignment,
        "schedulers": _schedulers,
        "controller": _controller,
        "queues": _queues,
        "flavors": _flavors,
    }
    return [finding for check in checks.values() for finding in check(setup)]


def _nodes(setup: ClusterSetup) -> Iterator[Finding]:
    nodes = [node.facts for node in setup.nodes or ()]
    closed = [f"{node.name} ({_closed_reason(node)})" for node in nodes if not _is_open(node)]
    if setup.nodes is None:
        yield Finding("nodes", UNKNOWN, "you may not list nodes and their reports")
    elif len(closed) == len(nodes):
        yield Finding("nodes", ERROR, "no node is ready and schedulable", "see `kubectl get nodes`")
    elif closed:
        message = f"{len(closed)} of {len(nodes)} nodes {of_number(len(closed), 'gets', 'get')} no pods: "
        yield Finding("nodes", WARNING, message + first_names(closed), "see `zonewise explain NODE`")
    else:
        yield Finding("nodes", OK, f"{_count(len(nodes), 'node is', 'nodes are')} ready and schedulable")


def _is_open(node: NodeAvailability) -> bool:
    """Return whether kube-scheduler may bind pods to a node, as far as its conditions tell."""
    return bool(node.ready) and node.schedulable


def _closed_reason(node: NodeAvailability) -> str:
    return "not ready" if not node.ready else "cordoned"


def _reports(setup: ClusterSetup) -> Iterator[Finding]:
    nodes = [node.facts for node in setup.nodes or () if _is_open(node.facts)]
    without = [node.name for node in nodes if node.zones is None]
    if not nodes:
        yield Finding("reports", UNKNOWN, "only ready nodes have current reports")
    elif len(without) == len(nodes):
        yield Finding("reports", ABSENT, "no node reports its zones: the agent is not installed, or does not run",
                      "`kubectl apply -k manifests/overlays/default` installs the agent")  # fmt: skip
    elif without:
        message = f"{len(without)} of {len(nodes)} nodes have no report: {first_names(without)}"
        yield Finding("reports", WARNING, message,
                      "check that the agent runs there: its pods, node selector and tolerations")  # fmt: skip
    elif silent := _nodes_without_agent(nodes, setup.agents or {}):
        message = f"no agent is ready on {len(silent)} of {len(nodes)} nodes: {first_names(silent)}"
        yield Finding("reports", WARNING, f"{message}; reports of such nodes may be outdated",
                      "see the pods of the agent there, and their logs")  # fmt: skip
    else:
        yield Finding("reports", OK, f"{_count(len(nodes), 'node reports its', 'nodes report their')} zones")


def _nodes_without_agent(nodes: Iterable[NodeAvailability], agents: Mapping[str, bool]) -> list[str]:
    """Return the nodes without a ready agent; none if no agent is known, since other programs write reports."""
    return [node.name for node in nodes if agents and not agents.get(node.name)]


def _alignment(setup: ClusterSetup) -> Iterator[Finding]:
    """Yield whether kubelets align; without a zone in its report, a kubelet has no static CPU Manager policy."""
    reporting = [node.facts for node in setup.nodes or () if node.facts.zones is not None]
    unaligned = [node.name for node in reporting if not node.zones or node.policy.partition("/")[0] in ("", "none")]
    if unaligned:
        yield Finding(
            "alignment", WARNING,
            f"{len(unaligned)} of {len(reporting)} kubelets align nothing: {first_names(unaligned)}",
            "set `topologyManagerPolicy: single-numa-node` and `cpuManagerPolicy: static` in their configuration",
        )  # fmt: skip
    elif reporting:
        policies = Counter(node.policy for node in reporting)
        texts = [f"{policy} ({number})" for policy, number in sorted(policies.items())]
        yield Finding("alignment", OK, f"policies of the kubelets: {', '.join(texts)}")
    else:
        yield Finding("alignment", UNKNOWN, "only reports contain the policies of kubelets")


def _schedulers(setup: ClusterSetup) -> Iterator[Finding]:
    if setup.unhandled_pods is None:
        yield Finding("schedulers", UNKNOWN, "you may not list the pods of all namespaces")
        return
    for name, pods in sorted(setup.unhandled_pods.items()):
        install = "`kubectl apply -k manifests/scheduler` installs it, or " if name == _ZONEWISE else ""
        yield Finding("schedulers", ERROR,
                      f"no scheduler handles {_count(pods, 'pod', 'pods')} with `schedulerName: {name}`",
                      f"{install}check that a scheduler of this name runs")  # fmt: skip
    if not setup.unhandled_pods:
        yield Finding("schedulers", OK, "no pod waits for a scheduler that does not run")


def _controller(setup: ClusterSetup) -> Iterator[Finding]:
    if setup.missing_webhook_service:
        message = f"the API server rejects new jobs of queues, because Service {setup.missing_webhook_service} is gone"
        remedy = "`kubectl apply -k manifests/queue` adds it; `kubectl delete -k manifests/queue/base` ends this"
        yield Finding("controller", ERROR, message, remedy)
    elif not setup.has_queues:
        remedy = "`kubectl apply -k manifests/queue` adds it, after the namespace `zonewise`"
        yield Finding("controller", ABSENT, "the cluster has no queue", remedy)
    elif setup.read_api_problem:
        yield Finding("controller", WARNING, f"the read API of the controller: {setup.read_api_problem}",
                      "check `kubectl -n zonewise get pods`, and your Role `zonewise-user`")  # fmt: skip
    else:
        yield Finding("controller", OK, "it leads, and its read API responds")


def _queues(setup: ClusterSetup) -> Iterator[Finding]:
    if not setup.has_queues:
        return
    if setup.cluster_queues is None or setup.local_queues is None:
        yield Finding("queues", UNKNOWN, "you may not list ClusterQueues and LocalQueues")
        return
    queues = [*setup.cluster_queues, *setup.local_queues]
    findings = [*_missing_queues(setup.cluster_queues, setup.local_queues), *_inactive_queues(queues)]
    yield from findings or [Finding("queues", OK, f"all {len(queues)} queues are active")]


def _missing_queues(cluster_queues: Sequence[QueueFacts], local_queues: Sequence[QueueFacts]) -> Iterator[Finding]:
    for kind, queues in (("ClusterQueue", cluster_queues), ("LocalQueue", local_queues)):
        if not queues:
            remedy = "`kubectl apply -k manifests/queue/examples/default-queue` creates one"
            yield Finding("queues", ERROR, f"there is no {kind}, so no job can start", remedy)


def _inactive_queues(queues: Sequence[QueueFacts]) -> Iterator[Finding]:
    inactive = [queue for queue in queues if queue.active is False]
    for queue in inactive[:_MAX_NAMED]:
        yield Finding("queues", ERROR, f"{_queue_name(queue)} admits nothing: {queue.message or queue.reason}")
    if len(inactive) > _MAX_NAMED:
        others = _count(len(inactive) - _MAX_NAMED, "more queue admits", "more queues admit")
        yield Finding("queues", ERROR, f"{others} nothing", "`zonewise queue -A` gives the reason of each")
    without_status = [_queue_name(queue) for queue in queues if queue.active is None]
    if without_status:
        message = f"no controller has written the status of {first_names(without_status)}"
        yield Finding("queues", ERROR, message, "check that the controller runs: `kubectl -n zonewise get pods`")


def _flavors(setup: ClusterSetup) -> Iterator[Finding]:
    if not setup.cluster_queues or setup.flavors is None or setup.nodes is None:
        return
    findings = [*_unmatched_flavors(setup), *_excessive_quotas(setup), *_uncovered_gpus(setup)]
    yield from findings or [Finding("flavors", OK, "the nodes of each flavor have its quotas")]


def _unmatched_flavors(setup: ClusterSetup) -> Iterator[Finding]:
    for flavor in sorted(_quotas(setup)):
        labels = (setup.flavors or {}).get(flavor)
        if labels and not any(node.facts.schedulable for node in _matching(setup, labels)):
            words = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
            yield Finding("flavors", WARNING, f"no schedulable node has the labels of flavor {flavor}: {words}",
                          "correct `spec.nodeLabels`, or label nodes")  # fmt: skip


def _excessive_quotas(setup: ClusterSetup) -> Iterator[Finding]:
    """Yield the resources of which all queues together may use more than the nodes of the flavor have.

    Cordoned nodes and those that are not ready count: they come back. Nodes provide devices of a DeviceClass without an
    amount in their status, and a setting may give these devices another name. So in a cluster with DeviceClasses, a
    resource that no node has is unknown.
    """
    on_nodes = {name for node in setup.nodes or () for name, amount in node.facts.allocatable.items() if amount}
    for flavor, quotas in sorted(_quotas(setup).items()):
        labels = (setup.flavors or {}).get(flavor)
        nodes = [] if labels is None else _matching(setup, labels)
        for resource, quota in sorted(quotas.items()):
            if setup.may_have_device_classes and resource not in on_nodes:
                continue
            allocatable = sum(node.facts.allocatable.get(resource, 0) for node in nodes)
            if nodes and allocatable * _TOLERATED_EXCESS < quota < UNLIMITED:
                held = f"its nodes have {readable_amount(resource, allocatable)}"
                yield Finding(
                    "flavors",
                    WARNING,
                    f"flavor {flavor} has quotas of {readable_amount(resource, quota)} {resource} in total; {held}",
                    "lower the quotas, unless nodes are added on demand",
                )


def _uncovered_gpus(setup: ClusterSetup) -> Iterator[Finding]:
    covered = {resource for quotas in _quotas(setup).values() for resource in quotas}
    nodes = Counter(
        name for node in setup.nodes or () for name, amount in node.facts.allocatable.items() if amount and is_gpu(name)
    )
    for resource in sorted(nodes.keys() - covered):
        holders = _count(nodes[resource], "node has", "nodes have")
        yield Finding("flavors", WARNING, f"no ClusterQueue has a quota for {resource}, which {holders}",
                      "add it to `coveredResources` of a resource group")  # fmt: skip


def _quotas(setup: ClusterSetup) -> dict[str, dict[str, int]]:
    """Return the nominal quotas of all ClusterQueues together, by flavor and resource."""
    sums: dict[str, dict[str, int]] = {}
    for queue in setup.cluster_queues or ():
        for usage in queue.resources:
            quotas = sums.setdefault(usage.flavor, {})
            quotas[usage.resource] = plus(quotas.get(usage.resource, 0), usage.nominal)
    return sums


def _matching(setup: ClusterSetup, labels: Mapping[str, str]) -> list[SetupNode]:
    return [node for node in setup.nodes or () if labels.items() <= node.labels.items()]


def _queue_name(queue: QueueFacts) -> str:
    return f"{queue.kind} {queue.namespace}/{queue.name}" if queue.namespace else f"{queue.kind} {queue.name}"


def _count(number: int, singular: str, plural: str) -> str:
    return f"{number} {of_number(number, singular, plural)}"
