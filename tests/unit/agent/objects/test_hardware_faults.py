"""Conditions, Events and the health of devices as API objects."""

from __future__ import annotations

import re

import pytest

from support.health_stories import FIRST, FIRST_GPU, POD, Story, gpu, xid
from zonewise.health.kernel_events import device_events
from zonewise.machine.kernel_log import LogRecord
from zonewise.objects.hardware_faults import (
    device_health,
    event_message,
    event_suffix,
    node_conditions,
    pod_condition,
    reason,
)
from zonewise_common.k8s.hardware_conditions import NODE_CONDITIONS


def story(code: int) -> Story:
    """Return a node on which a pod's GPU had an XID."""
    told = Story()
    told.held = {FIRST_GPU: [POD]}
    told.observe()
    told.observe(events=xid(code, told.now + 1))
    return told


@pytest.mark.parametrize(
    ("code", "status", "on_node"),
    [
        (79, "True", True),
        (119, "True", True),
        (94, "True", True),
        (31, "False", False),
        (63, None, False),
        (45, None, False),
    ],
)
def test_the_verdict_decides_the_condition(code: int, status: str | None, on_node: bool) -> None:
    faults = story(code).state.active
    condition = pod_condition(faults[0])
    assert (condition.status if condition else None) == status
    statuses = {condition.type: condition.status for condition in node_conditions(faults)}
    assert statuses == {name: str(on_node and name == "GPUHardwareFault") for name in NODE_CONDITIONS}
    if condition is not None:
        assert condition.reason == f"XID{code}"
        assert re.search(rf"gpu {FIRST}\); verdict \w+; at 2023-11-\S+Z", condition.message)


@pytest.mark.parametrize(("line", "type_"), [
    ("pcieport 0000:3a:00.0: AER: PCIe Bus Error: severity=Uncorrectable (Fatal), type=X", "FabricLinkDegraded"),
    ("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Fatal, Link 32", "FabricLinkDegraded"),
    ("nvidia 0000:3b:00.0: AER: PCIe Bus Error: severity=Uncorrectable (Fatal), type=X", "GPUHardwareFault"),
    ("mlx5_core 0000:5e:00.0: poll_health:817: device's health compromised", "FabricLinkDegraded"),
    ("Memory failure: 0x1f3a5: recovery action for dirty LRU page: Recovered", "MemoryHardwareFault"),
])  # fmt: skip
def test_the_device_decides_the_condition_of_the_node(line: str, type_: str) -> None:
    told = Story()
    told.observe(events=tuple(device_events([LogRecord(None, told.now, line)])))
    statuses = {condition.type: condition.status for condition in node_conditions(told.state.active)}
    assert statuses == {name: str(name == type_) for name in NODE_CONDITIONS}


def test_the_event_contains_all_known_facts() -> None:
    (fault,) = story(94).state.active
    message = event_message(fault)
    for words in (
        FIRST,
        "verdict: hardware",
        "source: kernel log",
        "sources disagree",
        "team/train-7x2bq",
        "NVRM: Xid",
    ):
        assert words in message
    assert event_suffix(fault) == event_suffix(fault._replace(occurrences=9, last=fault.last + 60))
    assert device_health([fault]) == {FIRST: "degraded: xid-94 (hardware)"}


def test_a_fault_that_ends_no_pod_is_not_a_pod_condition() -> None:
    told = Story()
    told.held = {FIRST_GPU: [POD]}
    told.last(400.0, **gpu(clocks_event_reasons=0x40))
    (fault,) = told.state.active
    assert pod_condition(fault) is None
    assert node_conditions([fault])[0].reason == reason("gpu-slowdown") == "GPUSlowdown"
