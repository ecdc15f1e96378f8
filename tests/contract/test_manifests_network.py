"""NetworkPolicies let exactly those connections pass that the programs take, and all that they make.

Policies that select a pod add up, and a rule without `from` is for everyone (pkg/apis/networking/types.go). Kubelets
always reach the pods of their node.
"""

from __future__ import annotations

import re

import pytest

from support.manifests import NAMESPACE, Object, combined, of_kind
from support.snapshots import PROJECT

SOURCES = ("common/zonewise_common", "agent/zonewise", "scheduler/zonewise_scheduler")
CONNECTS = re.compile(r"create_connection\(|HTTPS?Connection\(|urlopen\(|\.connect\(|PoolManager\(")
CALLERS = {
    "zonewise_common/kube/connection_pool.py": "the API server, through which programs also reach the read API",
    "zonewise/kubelet/channel.py": "a Unix socket of the kubelet",
    "zonewise/kubelet/configz.py": "the kubelet's server",
}
"""Modules that connect to a server."""
PARTS = [
    (".", "components/pod-monitor"),
    ("overlays/with-nfd", "components/metrics-auth"),
    ("overlays/without-nfd", "components/health"),
    ("scheduler", "scheduler/components/pod-monitor"),
    ("scheduler", "scheduler/components/metrics-auth"),
    ("scheduler/overlays/extender", "scheduler/components/pod-monitor"),
    ("queue", "queue/components/pod-monitor"),
]
"""What a user may apply, with a component."""

Port = tuple[str, int]
"""A protocol and a number."""


def pods_of(manifests: list[Object]) -> list[Object]:
    """Return the pod templates."""
    owners = [*of_kind(manifests, "Deployment"), *of_kind(manifests, "DaemonSet")]
    assert {one["metadata"]["namespace"] for one in owners} == {NAMESPACE}
    return [one["spec"]["template"] for one in owners]


def selects(labels: dict[str, str], pod: Object) -> bool:
    return labels.items() <= pod["metadata"]["labels"].items()


def resolve(pod: Object, port: Object | str | int) -> Port:
    """Return a port of a pod by its name or number."""
    ports = {
        one["name"]: (one.get("protocol", "TCP"), one["containerPort"])
        for container in pod["spec"]["containers"]
        for one in container["ports"]
    }
    return ports[port] if isinstance(port, str) else next(one for one in ports.values() if one[1] == port)


def policies_of(manifests: list[Object], pod: Object) -> list[Object]:
    return [
        one["spec"]
        for one in of_kind(manifests, "NetworkPolicy")
        if one["metadata"]["namespace"] == NAMESPACE and selects(one["spec"]["podSelector"]["matchLabels"], pod)
    ]


def opened(manifests: list[Object], pod: Object) -> set[Port]:
    """Return the ports of a pod that are open to everyone."""
    rules = [rule for policy in policies_of(manifests, pod) for rule in policy["ingress"] if not rule.get("from")]
    return {resolve(pod, port["port"]) for rule in rules for port in rule["ports"]}


def taken(manifests: list[Object], pod: Object) -> set[Port]:
    """Return the ports of a pod to which others connect: through Services, which webhooks name, and for metrics."""
    of_pod = [one for one in of_kind(manifests, "Service") if selects(one["spec"]["selector"], pod)]
    targets = {
        (one["metadata"]["name"], port["port"]): resolve(pod, port["targetPort"])
        for one in of_pod
        for port in one["spec"]["ports"]
    }
    for configuration in manifests:
        for webhook in configuration.get("webhooks") or ():
            service = webhook["clientConfig"]["service"]
            assert (service["name"], service.get("port", 443)) in targets
    monitors = [one["spec"] for one in of_kind(manifests, "PodMonitor")]
    scraped = {
        resolve(pod, endpoint["port"])
        for one in monitors
        if selects(one["selector"]["matchLabels"], pod)
        for endpoint in one["podMetricsEndpoints"]
    }
    return set(targets.values()) | scraped


@pytest.mark.parametrize(("overlay", "component"), PARTS)
def test_a_policy_opens_exactly_the_ports_to_which_others_connect(overlay: str, component: str) -> None:
    manifests = combined(overlay, component)
    pods = pods_of(manifests)
    assert pods
    for pod in pods:
        assert opened(manifests, pod) == taken(manifests, pod) != set()


@pytest.mark.parametrize(("overlay", "component"), PARTS)
def test_each_pod_has_a_policy_that_does_not_restrict_the_connections_that_it_makes(
    overlay: str, component: str
) -> None:
    """The address of the API server, and whether a plugin sees it before its translation, depend on the cluster."""
    manifests = combined(overlay, component)
    for pod in pods_of(manifests):
        assert [policy["policyTypes"] for policy in policies_of(manifests, pod)] == [["Ingress"]]


def test_programs_connect_only_to_the_api_server_and_the_kubelet() -> None:
    """Another destination would need a mention in the documentation, for clusters that restrict connections."""
    files = [file for root in SOURCES for file in (PROJECT / root).rglob("*.py")]
    found = {
        file.relative_to(PROJECT).as_posix().split("/", 1)[1] for file in files if CONNECTS.search(file.read_text())
    }
    assert found == set(CALLERS)
