"""Our account of each zone equals a real kubelet's own files, under every policy of its managers."""

from __future__ import annotations

import itertools

import pytest

from support.e2e.kubelet import skip_reason
from support.e2e.node import running_node
from support.e2e.plugin import Device
from support.e2e.pods import GPU, burstable, container, init, pod, sidecar
from support.e2e.published import assert_true, observing
from support.e2e.settings import Settings

pytestmark = pytest.mark.skipif(skip_reason() is not None, reason=str(skip_reason()))

TOPOLOGY = ("single-numa-node", "restricted", "best-effort", "none")
SCOPES, CPU, MEMORY = ("container", "pod"), ("static", "none"), ("Static", "None")
POLICIES = tuple(itertools.product(TOPOLOGY, SCOPES, CPU, MEMORY))
PAIRS = {
    (topology, SCOPES[row], CPU[row ^ number & 1], MEMORY[row ^ number >> 1])
    for number, topology in enumerate(TOPOLOGY)
    for row in range(2)
}
"""An orthogonal array: any two settings occur in all combinations. Only the long run combines all settings."""
PODS = (
    pod("whole", container(cpu="4", memory="1Gi")),
    pod("fraction", container(cpu="1500m", memory="1Gi")),
    pod("two", container("c1", cpu="3", memory="1Gi"), container("c2", cpu="2", memory="2Gi")),
    pod("leftover", container(cpu="2", memory="1Gi"), inits=(init("i", cpu="6", memory="3Gi"),)),
    pod("helped", container(cpu="2", memory="1Gi"), inits=(sidecar("s", cpu="1", memory="1Gi"),)),
    pod("pages", container(cpu="1", memory="1Gi", hugepages_2Mi="64Mi")),
    pod("gpu", container(cpu="1", memory="1Gi", gpu="1")),
    pod("burstable", burstable(cpu="2", memory="1Gi")),
    pod("wide", container(cpu="20", memory="1Gi")),
    pod("impossible", container(cpu="60", memory="1Gi")),
)
NOTHING = pod("nothing", container())
"""A pod without resources; at its admission, the kubelet removes ended pods from its files."""


def test_each_pair_of_settings_has_all_combinations() -> None:
    for first, second in itertools.combinations(range(4), 2):
        assert {(row[first], row[second]) for row in PAIRS} == {(row[first], row[second]) for row in POLICIES}


@pytest.mark.parametrize(
    ("topology", "scope", "cpu", "memory"),
    [pytest.param(*policies, marks=() if policies in PAIRS else pytest.mark.long) for policies in POLICIES],
)
def test_zones(topology: str, scope: str, cpu: str, memory: str) -> None:
    """Whatever the policies allocate to the same pods, our account equals the kubelet's files."""
    with running_node(Settings(topology=topology, scope=scope, cpu=cpu, memory=memory)) as node:
        node.plug(GPU, [Device("a", (0,)), Device("b", (1,)), Device("both", (0, 1)), Device("none")])
        with observing(node) as observer:
            for one in PODS:
                node.offer(one)
            reported = observer.usage()
            node.run(NOTHING)
            assert_true(node, observer.usage())
            assert_true(node, reported)
