"""Reads the objects that `zonewise check` judges."""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import FieldReader
from zonewise_common.kube.errors import Forbidden, NotFound
from zonewise_common.kube.resources import (
    CLUSTER_QUEUES,
    DEVICE_CLASSES,
    LOCAL_QUEUES,
    MUTATING_WEBHOOK_CONFIGURATIONS,
    NODE_RESOURCE_TOPOLOGIES,
    NODES,
    PODS,
    RESOURCE_FLAVORS,
    SERVICES,
)
from zonewise_scheduler.client.cluster.read_api import ReadApiUnavailable
from zonewise_scheduler.client.cluster.session import metadata_pairs
from zonewise_scheduler.client.nodes.node_facts import read_node_facts
from zonewise_scheduler.client.queues.queue_facts import read_cluster_queue, read_local_queue
from zonewise_scheduler.client.setup.setup_findings import ClusterSetup, SetupNode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_common.kube.resources import Resource
    from zonewise_scheduler.client.cluster.session import Json, Session

_GRACE = 60.0
"""Seconds after which a scheduler has looked at a pod."""
_UNBOUND = "spec.nodeName="
_WEBHOOKS = "zonewise-controller"
"""The webhook configuration of the manifests."""
_AGENTS = "app.kubernetes.io/name=zonewise-agent"
"""Selects the pods of the DaemonSet in the manifests and the chart."""


def read_setup(session: Session) -> ClusterSetup:
    """Return the objects of a cluster; damaged fields count as absent. Raises KubeError."""
    problems: list[str] = []
    has_queues, cluster_queues = _cluster_queues(session)
    local_queues, flavors = _listed(session, LOCAL_QUEUES), _listed(session, RESOURCE_FLAVORS)
    pods = _listed(session, PODS, _UNBOUND)
    read_api_problem = _read_api_problem(session) if has_queues else ""
    return ClusterSetup(
        _nodes(session, problems),
        has_queues,
        None if cluster_queues is None else [read_cluster_queue(queue, problems) for queue in cluster_queues],
        None if local_queues is None else [read_local_queue(queue, problems) for queue in local_queues],
        None if flavors is None else {flavor["metadata"]["name"]: _node_labels(flavor) for flavor in flavors},
        None if pods is None else unhandled_pods(pods, session.now()),
        read_api_problem,
        _listed(session, DEVICE_CLASSES) != [],
        ready_agents(_listed(session, PODS, label_selector=_AGENTS) or ()),
        "" if has_queues and not read_api_problem else _missing_webhook_service(session),
    )


def unhandled_pods(pods: Iterable[Json], now: float) -> dict[str, int]:
    """Return for each schedulerName how many pods its scheduler has left alone for a minute.

    kube-scheduler sets the condition PodScheduled of a pod that it cannot bind, and the API server that of a gated pod
    (pkg/scheduler/schedule_one.go handleSchedulingFailure; pkg/registry/core/pod/strategy.go
    applySchedulingGatedCondition).
    """
    names: Counter[str] = Counter()
    for pod in pods:
        reader = FieldReader(pod, "", [])
        spec, status = reader.child("spec"), reader.child("status")
        created = reader.child("metadata").time("creationTimestamp")
        is_new = created is None or now - created < _GRACE
        is_done = status.text("phase") in ("Succeeded", "Failed") or reader.child("metadata").has("deletionTimestamp")
        is_seen = any(condition.text("type") == "PodScheduled" for condition in status.children("conditions"))
        if not (is_new or is_done or is_seen or spec.text("nodeName") or spec.has("schedulingGates")):
            names[spec.text("schedulerName", "default-scheduler")] += 1
    return dict(names)


def ready_agents(pods: Iterable[Json]) -> dict[str, bool]:
    """Return for each node of these pods whether one of them is ready."""
    ready: dict[str, bool] = {}
    for pod in pods:
        reader = FieldReader(pod, "", [])
        conditions = reader.child("status").children("conditions")
        is_ready = any(one.text("type") == "Ready" and one.text("status") == "True" for one in conditions)
        node = reader.child("spec").text("nodeName")
        ready[node] = ready.get(node, False) or is_ready
    return ready


def _nodes(session: Session, problems: list[str]) -> list[SetupNode] | None:
    nodes, reports = _listed(session, NODES), _listed(session, NODE_RESOURCE_TOPOLOGIES)
    if nodes is None or reports is None:
        return None
    by_node = {report["metadata"]["name"]: report for report in reports}
    named = sorted((str(node["metadata"]["name"]), node) for node in nodes)
    return [
        SetupNode(read_node_facts(name, node, by_node.get(name), None, problems), metadata_pairs(node, "labels"))
        for name, node in named
    ]


def _node_labels(flavor: Json) -> Mapping[str, str]:
    return FieldReader(flavor, "", []).child("spec").pairs("nodeLabels")


def _listed(
    session: Session, resource: Resource, field_selector: str = "", label_selector: str = ""
) -> list[Json] | None:
    """Return the objects of a kind, none if the cluster lacks the kind; None if the user may not list them."""
    try:
        return session.list(resource, field_selector=field_selector, label_selector=label_selector)
    except Forbidden:
        return None


def _cluster_queues(session: Session) -> tuple[bool, list[Json] | None]:
    """Return whether the cluster serves ClusterQueues, and these; None if the user may not list them."""
    try:
        return True, session.client.list(CLUSTER_QUEUES).items
    except NotFound:
        return False, []
    except Forbidden:  # also if the cluster lacks the kind: only permitted users are told
        return True, None


def _read_api_problem(session: Session) -> str:
    try:
        session.read_api.get("/api/v1/queues")
    except (ReadApiUnavailable, NotFound) as error:
        return str(error)
    return ""


def _missing_webhook_service(session: Session) -> str:
    """Return the Service of the webhooks, as NAMESPACE/NAME, if it does not exist; "" if it may exist.

    The Service is in the namespace of the controller, but the webhook configurations are in none.
    """
    with contextlib.suppress(Forbidden):
        configuration = session.find(MUTATING_WEBHOOK_CONFIGURATIONS, _WEBHOOKS) or {}
        for webhook in FieldReader(configuration, "", []).children("webhooks"):
            service = webhook.child("clientConfig").child("service")
            name, namespace = service.text("name"), service.text("namespace")
            if name and session.find(SERVICES, name, namespace=namespace) is None:
                return f"{namespace}/{name}"
    return ""
