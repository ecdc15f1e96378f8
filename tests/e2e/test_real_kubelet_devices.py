"""Devices of device plugins: our account of each zone equals a real kubelet's own files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from support.e2e.kubelet import skip_reason
from support.e2e.node import running_node
from support.e2e.plugin import Device
from support.e2e.pods import GPU, container, init, pod
from support.e2e.published import assert_true, observing
from support.e2e.settings import Settings
from zonewise.objects.nrt import machine_to_nrt
from zonewise.usage.types import Usage
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.pod_spec import read_pod
from zonewise_scheduler.admission.report.interning import KindInterner
from zonewise_scheduler.admission.report.node_report import read_nrt

if TYPE_CHECKING:
    from pathlib import Path

    from support.e2e.node import Node

pytestmark = pytest.mark.skipif(skip_reason() is not None, reason=str(skip_reason()))

RESTRICTED = Settings(topology="restricted")
KINDS = (
    Device("zone-0", (0,)),
    Device("zone-1", (1,)),
    Device("both", (0, 1)),
    Device("no-topology"),
    Device("minus-one", (-1,)),
)


@pytest.mark.parametrize("kind", [*KINDS, Device("empty-topology", ())], ids=lambda kind: kind.id)
def test_devices(kind: Device) -> None:
    """A device counts in each zone that it is close to; a device without zones is counted separately."""
    with running_node(Settings()) as node, observing(node) as observer:
        node.plug(GPU, [kind, kind._replace(id="second")])
        assert_true(node, observer.usage())
        node.run(pod("a", container(cpu="1", memory="1Gi", gpu="1")))
        assert_true(node, observer.usage())


def test_devices_of_one_resource_with_all_kinds_of_topology() -> None:
    with running_node(Settings()) as node, observing(node) as observer:
        node.plug(GPU, KINDS)
        for number in range(len(KINDS)):
            node.run(pod(f"p{number}", container(cpu="1", memory="1Gi", gpu="1")))
            assert_true(node, observer.usage())


def test_devices_of_no_zone_under_a_policy() -> None:
    """Devices of zone -1 are never allocated under a policy, and remain available without one."""
    with running_node(RESTRICTED) as node, observing(node) as observer:
        node.plug(GPU, [Device("a", (-1,))])
        status = node.offer(pod("a", container(cpu="1", memory="1Gi", gpu="1")))
        assert status["reason"] == "TopologyAffinityError"
        assert_true(node, observer.usage())


@pytest.mark.parametrize("policy", ["best-effort", "restricted", "single-numa-node"])
@pytest.mark.parametrize("zone", [-1, 9])
def test_the_verdict_on_devices_of_absent_zones(policy: str, zone: int) -> None:
    """The scheduler's verdict on our object is the kubelet's; without alignment, the pod runs."""
    with running_node(Settings(topology=policy)) as node, observing(node) as observer:
        node.plug(GPU, [Device("a", (zone,)), Device("b", (zone,))])
        offered = pod("a", container(cpu="1", memory="1Gi", gpu="1"))
        usage = observer.account()
        assert isinstance(usage, Usage)
        nrt = machine_to_nrt(observer.machine, "n", usage, observer.report().config)
        state = read_nrt(nrt, KindInterner()).state
        assert state is not None
        verdict = admit(state, read_pod(offered))
        assert verdict.reason == node.offer(offered).get("reason", "")
        assert verdict.admitted == (policy == "best-effort")


def test_device_that_becomes_unhealthy() -> None:
    """An unhealthy device is unavailable, and becomes available again when it is healthy."""
    devices = [Device("a", (0,)), Device("b", (0,))]
    with running_node(RESTRICTED) as node, observing(node) as observer:
        plugin = node.plug(GPU, devices)
        plugin.change([devices[0], devices[1]._replace(healthy=False)])
        node.kubelet.until(lambda: node.healthy(GPU) == 1, "illness")
        assert_true(node, observer.usage())
        plugin.change(devices)
        node.kubelet.until(lambda: node.healthy(GPU) == 2, "health")
        assert_true(node, observer.usage())


def test_device_plugin_that_registers_late() -> None:
    """Devices exist only after the plugin has registered."""
    with running_node(RESTRICTED) as node, observing(node) as observer:
        node.run(pod("a", container(cpu="2", memory="1Gi")))
        assert all(GPU not in zone.amounts for zone in observer.usage().zones)
        node.plug(GPU, [Device("a", (1,))])
        assert_true(node, observer.usage())


def test_device_of_only_an_init_container() -> None:
    """The device is allocated while its pod has a cgroup, and free afterwards, before the kubelet's file changes."""
    validator = pod("v", container(), inits=(init("i", cpu="1", memory="1Gi", gpu="1"),))
    with running_node(Settings()) as node, observing(node) as observer:
        node.plug(GPU, [Device("a", (0,)), Device("b", (1,))])
        make_cgroups(node)
        before = observer.usage()
        node.run(validator)
        made = make_cgroups(node)
        assert_true(node, observer.usage())
        assert observer.usage() != before
        node.end("v")
        made["v-node-1"].rmdir()
        assert observer.usage() == before


def make_cgroups(node: Node) -> dict[str, Path]:
    """Create a cgroup for every pod, which this kubelet does not, and return the cgroups by the pods' names."""
    mount = node.root / "sys" / "fs" / "cgroup"
    (mount / "kubepods").mkdir(parents=True, exist_ok=True)
    (mount / "cgroup.controllers").touch()
    pods: list[dict[str, Any]] = json.loads(node.kubelet.get("/pods"))["items"] or []
    made = {one["metadata"]["name"]: mount / "kubepods" / f"pod{one['metadata']['uid']}" for one in pods}
    for directory in made.values():
        directory.mkdir(exist_ok=True)
    return made
