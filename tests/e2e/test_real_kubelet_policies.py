"""What we say of each zone is what a real kubelet's own files say, under every policy of its managers."""

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
"""An orthogonal array: any two settings meet in all of their values. All settings together are for the long run."""
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
"""Holds nothing, yet the kubelet clears what is gone out of its files when it admits it."""


def test_any_two_settings_meet_in_all_values() -> None:
    for first, second in itertools.combinations(range(4), 2):
        assert {(row[first], row[second]) for row in PAIRS} == {(row[first], row[second]) for row in POLICIES}


@pytest.mark.parametrize(
    ("topology", "scope", "cpu", "memory"),
    [pytest.param(*policies, marks=() if policies in PAIRS else pytest.mark.long) for policies in POLICIES],
)
def test_zones(topology: str, scope: str, cpu: str, memory: str) -> None:
    """Whatever the policies let the same pods have, we tell it as the kubelet's files do."""
    with running_node(Settings(topology=topology, scope=scope, cpu=cpu, memory=memory)) as node:
        node.plug(GPU, [Device("a", (0,)), Device("b", (1,)), Device("both", (0, 1)), Device("none")])
        with observing(node) as observer:
            for one in PODS:
                node.offer(one)
            reported = observer.usage()
            node.run(NOTHING)
            assert_true(node, observer.usage())
            assert_true(node, reported)
