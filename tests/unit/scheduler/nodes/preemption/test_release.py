"""The state of a node after pods have ended, compared with an idle node and with other orders."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import assume, given
from hypothesis import strategies as st

from support.any_nodes import ALIGNED
from support.ledger_kubelets import GPU, SINGLE, node_kind
from support.occupied_nodes import occupied_nodes
from zonewise_common.nrt.holdings import Holdings
from zonewise_scheduler.admission.node import NO_ZONE, DeviceClass, idle_node
from zonewise_scheduler.nodes.preemption.release import memory_zones, release

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_scheduler.nodes.preemption.types import OccupiedNode, RunningPod

EVERY = ("none", "best-effort", *ALIGNED)


def held(pods: Iterable[RunningPod]) -> int:
    zones = 0
    for pod in pods:
        zones |= memory_zones(pod.holdings)
    return zones


def holdings(pods: Iterable[RunningPod]) -> list[Holdings]:
    return [pod.holdings for pod in pods if pod.holdings is not None]


def test_devices_of_numa_node_minus_one() -> None:
    """A device whose plugin names NUMA node -1 is freed, although holdings name no zone for it."""
    kind = replace(node_kind(SINGLE), devices=(DeviceClass(GPU, NO_ZONE, 2, 2),))
    occupied = idle_node(kind)._replace(device_free=(0,))
    ended = [Holdings(0, ((GPU, 0, 1),))]
    assert release(occupied, ended, 0).device_free == (1,)
    kind = replace(kind, devices=(DeviceClass(GPU, 0, 2, 2), *kind.devices))
    assert sum(release(idle_node(kind)._replace(device_free=(0, 0)), ended, 0).device_free) == 1, "it is in one class"


@given(occupied_nodes(topologies=EVERY))
def test_all_pods_end(node: OccupiedNode) -> None:
    """After all pods have ended, the node is idle."""
    if len(holdings(node.pods)) == len(node.pods):
        assert release(node.reported, holdings(node.pods), 0) == idle_node(node.state.kind)


@given(occupied_nodes(topologies=("single-numa-node",)), st.data())
def test_the_order_of_ends_does_not_matter(node: OccupiedNode, data: st.DataObject) -> None:
    """Pods that end one after another free as much as pods that end together, whatever pods remain."""
    pods = list(node.pods)
    assume(len(holdings(pods)) == len(pods))
    ending = data.draw(st.lists(st.sampled_from(pods), unique=True)) if pods else []
    together = release(node.reported, holdings(ending), held(pod for pod in pods if pod not in ending))
    state, staying = node.reported, list(pods)
    for pod in ending:
        staying.remove(pod)
        state = release(state, holdings([pod]), held(staying))
    assert state == together


@given(occupied_nodes(topologies=EVERY))
def test_nothing_is_freed_twice(node: OccupiedNode) -> None:
    """No more is free than on the idle node. If no pod ends, only groups without assignments change."""
    idle = idle_node(node.state.kind)
    after = release(node.reported, holdings(node.pods) * 2, 0)
    assert after.free_cpus | idle.free_cpus == idle.free_cpus
    assert all(free <= total for free, total in zip(after.device_free, idle.device_free, strict=True))
    for row, total in zip(after.memory_free, idle.memory_free, strict=True):
        assert all(free <= most for free, most in zip(row, total, strict=True))
    unchanged = release(node.reported, (), -1)
    assert unchanged == node.reported
