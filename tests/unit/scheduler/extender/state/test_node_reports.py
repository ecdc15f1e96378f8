"""Changes of a v1.Node take effect without a new report: the kubelet's release, and unhealthy devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from support.clock import Clock
from support.fit_nodes import GPU, NIC, container, node, pod
from zonewise_scheduler.admission.report.node_report import NodeReport
from zonewise_scheduler.extender.cache import ExtenderCache
from zonewise_scheduler.extender.fallback_policy import FallbackPolicy
from zonewise_scheduler.extender.objects.api_objects import PublishedReport, decode_node
from zonewise_scheduler.extender.types import CandidateNodes, ExtenderArgs
from zonewise_scheduler.nodes.assumed.types import LedgerTimeouts, PendingPod

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.nodes.node.node_info import NodeInfo

STATE = node(2, devices={GPU: {2: 1}, NIC: {1: 1}}, topology="single-numa-node")
ZERO_GPUS = pod(container(devices={GPU: 0, NIC: 1}), qos="BestEffort")
"""A pod that requests 0 GPUs. Since 1.36 such a request is aligned to the zones with GPUs; before, to any zone."""


def info(version: str, capacity: int = 0) -> NodeInfo:
    """Return the Node of a kubelet of this version, with the given number of GPUs in its capacity."""
    status = {
        "nodeInfo": {"kubeletVersion": version},
        "capacity": {"cpu": "64", "memory": "64Gi", "pods": "110", "hugepages-1Gi": "1Gi", GPU: str(capacity)},
    }
    return decode_node(msgspec.Raw(msgspec.json.encode({"metadata": {"name": "n"}, "status": status})))


class Cluster:
    """A cache with one node."""

    def __init__(self, state: NodeState = STATE) -> None:
        self.cache = ExtenderCache(Clock(), LedgerTimeouts(), FallbackPolicy(), lambda _: None)
        self.report = PublishedReport(NodeReport("n", state, (), (), "5"), None)
        self._pods = 0

    def admits(self, shape: PodShape) -> bool:
        """Return whether the node is selected for a new pod."""
        self._pods += 1
        pending = PendingPod(f"uid-{self._pods}", "lab", f"p{self._pods}", shape)
        names = CandidateNodes(ExtenderArgs({}, node_names=msgspec.Raw(b'["n"]')))
        return self.cache.select_and_assume(pending, names).node == "n"


def test_a_kubelet_upgrade_takes_effect_at_once() -> None:
    """The same applies if the report came before the node, and after a downgrade."""
    cluster = Cluster()
    cluster.cache.update_report(None, cluster.report)
    assert not cluster.admits(ZERO_GPUS)
    old, new = info("v1.35.9"), info("v1.36.0")
    cluster.cache.update_node(None, old)
    assert cluster.admits(ZERO_GPUS)
    cluster = Cluster()
    cluster.cache.update_node(None, old)
    cluster.cache.update_report(None, cluster.report)
    cluster.cache.update_node(old, new)
    assert not cluster.admits(ZERO_GPUS)
    cluster.cache.update_node(new, old)
    assert cluster.admits(ZERO_GPUS)


def test_unhealthy_devices_count_at_once() -> None:
    """A capacity of 8 GPUs, of which 6 are reported, makes 4 GPUs prefer one zone; no zone has 4 healthy ones."""
    cluster = Cluster(node(2, devices={GPU: {1: 3, 2: 3}}, topology="restricted"))
    four = pod(container(devices={GPU: 4}), qos="BestEffort")
    healthy, ill = info("v1.36.0", 6), info("v1.36.0", 8)
    cluster.cache.update_node(None, healthy)
    cluster.cache.update_report(None, cluster.report)
    cluster.cache.update_node(healthy, ill)
    assert ill.device_capacity == ((GPU, 8),)
    assert not cluster.admits(four)
    cluster.cache.update_node(ill, healthy)
    assert cluster.admits(four)
