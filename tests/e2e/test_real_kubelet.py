"""Our account of each zone equals a real kubelet's own files, whatever happens on its node."""

from __future__ import annotations

import json
import queue
from typing import TYPE_CHECKING

import pytest
import yaml

from support.e2e.hardware import MIB, Hardware
from support.e2e.kubelet import skip_reason
from support.e2e.node import running_node
from support.e2e.plugin import Device
from support.e2e.pods import GPU, burstable, container, init, pod, sidecar
from support.e2e.published import assert_true, observing
from support.e2e.settings import Settings
from support.e2e.truth import truth
from support.kubelets import decode_pod_event
from support.trees import GIB, Shape
from support.waiting import PATIENCE
from zonewise.kubelet.config import parse_config
from zonewise.kubelet.pods.watch import PodWatch
from zonewise.usage.node_usage import KubeletNotReady
from zonewise_common.k8s.cpuset import CpuSet

if TYPE_CHECKING:
    from support.e2e.node import Node, Object
    from support.e2e.published import Observer
    from zonewise.usage.types import Usage

pytestmark = pytest.mark.skipif(skip_reason() is not None, reason=str(skip_reason()))

RESTRICTED = Settings(topology="restricted")
SINGLE = Settings(topology="single-numa-node")
NEVER = "1h"
"""A reconcile period longer than any test, so that only an admission clears the files."""


NOTHING = pod("nothing", container())
"""A pod without resources; at its admission, the kubelet removes ended pods from its files."""


def cpus_left(observer: Observer) -> dict[int, str]:
    """Return the free CPUs of each zone in our account."""
    return {zone.zone: str(zone.free_cpus) for zone in observer.usage().zones}


def reason(status: Object) -> str:
    """Return the reason why a pod was rejected."""
    assert status["phase"] == "Failed", status
    return status["reason"]


# --- CPUs


def test_cpus_of_init_containers() -> None:
    """CPUs that only an init container uses remain allocated while the pod runs, although List omits them."""
    with running_node(RESTRICTED) as node, observing(node) as observer:
        node.run(pod("a", container(cpu="2", memory="1Gi"), inits=(init("i", cpu="6", memory="1Gi"),)))
        assert_true(node, observer.usage())
        assert [container.cpus for listed in observer.client.list() for container in listed.containers] == [
            CpuSet((1, 17))
        ]
        assert cpus_left(observer) == {0: "4-7,20-23", 1: "8-15,24-31"}
        node.end("a")
        node.run(NOTHING)
        assert_true(node, observer.usage())
        assert cpus_left(observer) == {0: "1-7,17-23", 1: "8-15,24-31"}


def test_cpus_of_restartable_init_containers() -> None:
    """CPUs of restartable init containers are never shared with other containers."""
    with running_node(RESTRICTED) as node, observing(node) as observer:
        node.run(pod("a", container(cpu="2", memory="1Gi"), inits=(sidecar("s", cpu="4", memory="1Gi"),)))
        assert [one.name for listed in observer.client.list() for one in listed.containers] == ["s", "c"]
        assert cpus_left(observer) == {0: "4-7,20-23", 1: "8-15,24-31"}
        assert_true(node, observer.usage())


@pytest.mark.parametrize(("reserved", "free"), [("0-3,8,24", {0: 12, 1: 14}), ("0-7,16-23", {0: 0, 1: 16})])
def test_reserved_cpus(reserved: str, free: dict[int, int]) -> None:
    """Reserved CPUs, in any zone, are not allocated to pods."""
    with running_node(RESTRICTED._replace(reserved_cpus=reserved)) as node, observing(node) as observer:
        usage = observer.usage()
        assert usage.reserved_cpus == CpuSet.parse_list(reserved)
        assert {zone.zone: zone.amounts["cpu"].allocatable for zone in usage.zones} == free
        node.run(pod("a", container(cpu="2", memory="1Gi")))
        assert_true(node, observer.usage())


def test_only_whole_cores() -> None:
    """Under full-pcpus-only, a pod with half a core is rejected, and uses nothing."""
    with running_node(SINGLE._replace(cpu_options={"full-pcpus-only": "true"})) as node, observing(node) as observer:
        before = observer.usage()
        status = node.offer(pod("odd", container(cpu="3", memory="1Gi")))
        assert reason(status) == "SMTAlignmentError"
        assert observer.usage() == before
        node.run(pod("even", container(cpu="4", memory="1Gi")))
        assert_true(node, observer.usage())
        assert dict(observer.config.cpu_manager_options) == {"full-pcpus-only": "true"}


# --- memory


def test_memory_of_several_zones() -> None:
    """A block of two zones is first taken from the lower one, and both zones form a group while it is allocated."""
    with running_node(RESTRICTED) as node, observing(node) as observer:
        node.run(pod("a", container(cpu="1500m", memory="300Gi")))
        usage = observer.usage()
        assert_true(node, usage)
        assert [zone.memory_group for zone in usage.zones] == [(0, 1), (0, 1)]
        assert [zone.amounts["memory"].available > 0 for zone in usage.zones] == [False, True]
        status = node.offer(pod("b", container(cpu="1500m", memory="1Gi")))
        assert reason(status) == "TopologyAffinityError"
        node.end("a", "b")
        reported = observer.usage()
        node.run(NOTHING)
        assert_true(node, reported)
        assert [zone.memory_group for zone in reported.zones] == [(), ()]


def test_memory_of_three_of_four_zones() -> None:
    """The same holds for three of four zones that have gaps in their ids and differ in size."""
    hardware = Hardware(
        Shape(packages=2, zones=2, cores=2, threads=2, l3_cores=2),
        ids=(0, 2, 3, 7),
        memory=(100 * GIB, 200 * GIB, 300 * GIB, 400 * GIB),
        hugepages=({"hugepages-2Mi": 64}, {}, {"hugepages-2Mi": 128, "hugepages-1Gi": 3}, {}),
        distances=("10 12 32 32", "12 10 32 32", "32 32 10 12", "32 32 12 10"),
    )
    settings = Settings(topology="best-effort", reserved_cpus="0", reserved_memory=((2, "memory", 512 * MIB),))
    with running_node(settings, hardware) as node, observing(node) as observer:
        node.run(pod("wide", container(cpu="1500m", memory="750Gi")))
        node.run(pod("narrow", container(cpu="2", memory="1Gi")))
        node.run(pod("pages", container(cpu="1", memory="1Gi", hugepages_1Gi="1Gi", hugepages_2Mi="128Mi")))
        node.run(NOTHING)
        usage = observer.usage()
        assert [zone.zone for zone in usage.zones] == [0, 2, 3, 7]
        assert max(len(zone.memory_group) for zone in usage.zones) == 3
        assert_true(node, usage)


def test_reserved_memory_of_both_zones() -> None:
    """Reserved memory of each zone is not allocated."""
    reserved = ((0, "memory", 512 * MIB), (1, "memory", 2 * GIB))
    with running_node(SINGLE._replace(reserved_memory=reserved)) as node, observing(node) as observer:
        node.run(pod("a", container(cpu="2", memory="3Gi")))
        assert observer.config.reserved_memory == reserved
        assert_true(node, observer.usage())


def test_hugepages() -> None:
    """Pages are allocated in their zone, and a pod that needs more than a zone has is rejected."""
    with running_node(SINGLE) as node, observing(node) as observer:
        node.run(
            pod("small", container(cpu="2", memory="256Mi", hugepages_2Mi="256Mi")),
            pod("large", container(cpu="2", memory="256Mi", hugepages_1Gi="1Gi")),
        )
        reason(node.offer(pod("much", container(cpu="2", memory="256Mi", hugepages_1Gi="2Gi"))))
        node.run(NOTHING)
        assert_true(node, observer.usage())


# --- starting and ending pods


def test_rejected_pods() -> None:
    """CPUs of a rejected pod's first container are free, although the file contains them until the next admission."""
    two = pod("two", container("c1", cpu="4", memory="1Gi"), container("c2", cpu="40", memory="1Gi"))
    with running_node(SINGLE._replace(reconcile=NEVER)) as node, observing(node) as observer:
        before = observer.usage()
        status = node.offer(two)
        assert reason(status) == "TopologyAffinityError"
        assert truth(node)[0]["cpu"].available == 10
        assert observer.usage() == before
        node.run(pod("whole", container(cpu="14", memory="1Gi")))
        assert_true(node, observer.usage())


def whole_zone(name: str, **resources: str) -> Object:
    """Return a pod with all allocatable CPUs of a zone, and all of its memory but 1 GiB."""
    return pod(name, container(cpu="14", memory="254Gi", **resources))


def test_ended_pods_of_a_full_node() -> None:
    """Resources of ended pods are free at once, although all files contain them: a pod that needs all is admitted."""
    with running_node(SINGLE._replace(reconcile=NEVER)) as node, observing(node) as observer:
        node.plug(GPU, [Device("a", (0,)), Device("b", (1,))])
        node.run(whole_zone("first", gpu="1"), whole_zone("second", gpu="1"))
        assert {zone.amounts["cpu"].available for zone in observer.usage().zones} <= {0, 2}
        for number, (ended, successor) in enumerate([("first", "third"), ("second", "fourth"), ("third", "fifth")]):
            held = truth(node)
            node.kubelet.remove(ended)
            node.kubelet.until(
                lambda name=ended: f"{name}-node-1" not in {listed.name for listed in observer.client.list()},
                f"end of {ended}",
            )
            reported = observer.usage()
            assert truth(node) == held, number
            freed = [zone for zone in reported.zones if zone.amounts["cpu"].available >= 14]
            assert [zone.amounts[GPU].available for zone in freed] == [1]
            assert [zone.amounts["memory"].available >= 254 * GIB for zone in freed] == [True]
            node.run(whole_zone(successor, gpu="1"))
            assert_true(node, observer.usage())


def test_ended_pods_without_their_init_containers() -> None:
    """An entry of an init container remains allocated with its pod, and as long as a listed pod might own the entry."""
    idle = pod("idle", container("other"))
    leaves = pod("leaves", container("c", cpu="1500m", memory="1Gi"), inits=(init("i", cpu="6", memory="1Gi"),))
    with running_node(RESTRICTED._replace(reconcile=NEVER)) as node, observing(node) as observer:
        node.run(leaves)
        held = observer.usage()
        assert_true(node, held)
        assert sum(zone.amounts["cpu"].available for zone in held.zones) == 24
        node.run(idle)
        node.end("leaves")
        assert sum(zone.amounts["cpu"].available for zone in observer.usage().zones) == 24  # `idle` might own the entry
        node.end("idle")
        assert sum(zone.amounts["cpu"].available for zone in observer.usage().zones) == 30
        node.run(whole_zone("whole"))
        assert_true(node, observer.usage())


def test_ended_pods() -> None:
    """Resources of ended and deleted pods are free, although files contain them until the next admission."""
    with running_node(RESTRICTED._replace(reconcile="1s")) as node, observing(node) as observer:
        node.plug(GPU, [Device("a", (0,)), Device("b", (1,))])
        node.run(pod("stays", container(cpu="4", memory="2Gi")))
        before = observer.usage()
        node.run(
            pod("job", container(cpu="4", memory="2Gi", gpu="1"), restart="Never"),
            pod("deleted", container(cpu="4", memory="2Gi", gpu="1")),
        )
        assert_true(node, observer.usage())
        node.runtime.finish("job-node-1", "c")
        node.end("deleted")
        node.kubelet.until(lambda: exclusive(node) == 1, "reconciliation")
        assert truth(node)[0]["memory"].available < before.zones[0].amounts["memory"].available
        assert observer.usage() == before
        node.run(pod("next", container(cpu="2", memory="1Gi", gpu="1")))
        assert_true(node, observer.usage())


def test_shared_pods() -> None:
    """Pods of other QoS classes hold no resources of a zone."""
    with running_node(RESTRICTED) as node, observing(node) as observer:
        before = observer.usage()
        node.run(pod("b", burstable(cpu="4", memory="4Gi")), pod("n", container()))
        after = observer.usage()
        assert after.zones == before.zones
        assert after.fingerprint_exclusive == before.fingerprint_exclusive
        assert after.fingerprint_all != before.fingerprint_all


# --- the kubelet itself


def test_restart() -> None:
    """A restarting kubelet reports too few pods, resources and devices, but we never report too many available ones."""
    with running_node(RESTRICTED) as node, observing(node) as observer:
        plugin = node.plug(GPU, [Device("a", (0,)), Device("b", (1,))])
        node.run(pod("a", container(cpu="4", memory="2Gi", gpu="1")), pod("b", container(cpu="1500m", memory="3Gi")))
        before = observer.usage()
        node.runtime.ready = False
        node.kubelet.restart(wait=False)
        assert isinstance(observer.account(), KubeletNotReady)
        node.runtime.ready = True
        reported: list[Usage | KubeletNotReady] = []
        node.kubelet.until(lambda: reported.append(observer.account()) or len(observer.client.list()) == 2, "both pods")
        plugin.register()
        node.kubelet.until(lambda: node.healthy(GPU) == 2 and observer.account() == before, "as before")
        for usage in reported:
            if isinstance(usage, KubeletNotReady):
                continue
            assert usage.unzoned == {}
            for now, then in zip(usage.zones, before.zones, strict=True):
                assert all(amount.available <= then.amounts[name].available for name, amount in now.amounts.items())


def test_configuration() -> None:
    """The kubelet's own server reports the same configuration as its file."""
    settings = Settings(
        topology="best-effort",
        scope="pod",
        topology_options={"prefer-closest-numa-nodes": "true"},
        cpu_options={"distribute-cpus-across-numa": "true"},
        gates={"PodsAPI": True},
    )
    with running_node(settings) as node, observing(node) as observer:
        document = yaml.safe_load(node.kubelet.config.read_text())
        assert observer.config == parse_config(document, origin="config.yaml")


def test_events_of_pods() -> None:
    """The Pods API sends an event for every pod, and one more after all present pods."""
    events: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    with running_node(RESTRICTED._replace(gates={"PodsAPI": True})) as node:
        node.run(pod("before", container()))
        watch = PodWatch(str(node.kubelet.directory / "pods-api" / "pods-api.sock"), events.put)
        watch.start()
        try:
            until_event(events, ("ADDED", "before-node-1"))
            until_event(events, ("INITIAL_SYNC_COMPLETE", ""))
            node.run(pod("after", container()))
            until_event(events, ("ADDED", "after-node-1"))
        finally:
            watch.stop()


def until_event(events: queue.SimpleQueue[bytes], expected: tuple[str, str]) -> None:
    while decode_pod_event(events.get(timeout=PATIENCE)) != expected:
        pass


def test_list_is_never_behind_the_files() -> None:
    """List contains CPUs no later than cpu_manager_state does, so a change of the file is a good time to call it."""
    with running_node(SINGLE) as node, observing(node) as observer:
        for number in range(8):
            node.kubelet.add(pod(f"p{number}", container(cpu="2", memory="1Gi")))
            node.kubelet.until(lambda count=number: exclusive(node) > count, "allocation")
            held = [one.cpus for listed in observer.client.list() for one in listed.containers if one.cpus]
            assert len(held) == number + 1


def exclusive(node: Node) -> int:
    """Return the number of pods in cpu_manager_state."""
    return len(json.loads((node.kubelet.directory / "cpu_manager_state").read_text()).get("entries", {}))
