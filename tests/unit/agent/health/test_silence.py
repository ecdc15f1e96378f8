"""A condition lasts while its source has no value, whatever the source, and ends when the value is normal again."""

from __future__ import annotations

from typing import Any

import pytest

from support.health_stories import DRIVE, ETHERNET, FIRST, HCA, HEALTHY, SECOND, SWITCH, Story, gpu
from zonewise.health.types import CpuReading, LinkReading, MemoryReading, NicReading, RasReading

PORT = HEALTHY.ports["mlx5_0/1"]
LINKS = {address: link for address, link in HEALTHY.links.items() if address != HCA}
WIDTH = {"links": {**HEALTHY.links, HCA: LinkReading(32.0, 8)}}
WITHOUT_SWITCH = {address: link for address, link in HEALTHY.links.items() if address != SWITCH}
LOST_LANES_OF_SWITCH = {"links": {**HEALTHY.links, SWITCH: LinkReading(32.0, 8)}}
DOWN = {"ports": {"mlx5_0/1": PORT._replace(state="DOWN", physical_state="Polling")}}
NO_CARRIER = {"nics": {"eth0": NicReading(ETHERNET, False, None)}}
THROTTLED = {"cpus": CpuReading(96, (), {"package 0": 5007})}
UMC_ALONE = RasReading({"umc": 0}, {"umc": 0})
FIRST_OF_GPUS = {"gpus": {SECOND: (HEALTHY.gpus or {})[SECOND]}}

CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("the driver and its port are gone", DOWN, {"ports": {}}),
    ("the state of the port cannot be read", DOWN, {"ports": {"mlx5_0/1": PORT._replace(state=None)}}),
    ("a pod has the NIC in its namespace", NO_CARRIER, {"nics": {}}),
    ("the NIC is administratively down", NO_CARRIER, {"nics": {"eth0": NicReading(ETHERNET, None, None)}}),
    ("the device is off the bus", WIDTH, {"links": LINKS}),
    ("the link has no width", WIDTH, {"links": {**LINKS, HCA: LinkReading(32.0, 0)}}),
    ("the switch is off the bus", LOST_LANES_OF_SWITCH, {"links": WITHOUT_SWITCH}),
    ("no bus is shown", {"pci": (HEALTHY.pci or frozenset()) - {FIRST}}, {"pci": None}),
    ("NVML leaves the GPU out", gpu(ecc_uncorrected=1), FIRST_OF_GPUS),
    ("the counts of the GPU cannot be read", {"ras": {FIRST: RasReading({}, {"umc": 1})}}, {"ras": {}}),
    ("one count of the GPU cannot be read", {"ras": {FIRST: RasReading({}, {"gfx": 1})}}, {"ras": {FIRST: UMC_ALONE}}),
    ("the drive is off the bus", {"drives": {DRIVE: "dead"}}, {"drives": {}}),
    ("the EDAC driver is gone", {"memory": MemoryReading({}, {"mc0/dimm1": 1}, 0)}, {"memory": MemoryReading()}),
    ("/proc/meminfo lacks it", {"memory": MemoryReading(poisoned=4096)}, {"memory": MemoryReading()}),
    ("/proc/meminfo is absent", {"memory_total": 1 << 30}, {"memory_total": None}),
    ("the online CPUs cannot be read", {"cpus": CpuReading(95, (7,))}, {"cpus": CpuReading()}),
    ("the count of throttles cannot be read", THROTTLED, {"cpus": CpuReading(96)}),
]


@pytest.mark.parametrize(("faulty", "silent"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_source_without_a_value_does_not_end_a_fault(faulty: dict[str, Any], silent: dict[str, Any]) -> None:
    story = Story(restarts=True)
    story.last(360.0, **faulty)
    before = story.rules
    assert len(before) == 1
    story.last(3 * 3600.0, **silent)
    assert story.rules == before
    story.last(3 * 3600.0, **({} if "cpus" not in silent else {"cpus": CpuReading(96, (), {"package 0": 5007})}))
    assert story.rules == []


FAILING: list[tuple[dict[str, Any], str]] = [
    ({"ecc_uncorrected": 1}, "nvmlDeviceGetTotalEccErrors"),
    ({"remapped_failed": True}, "nvmlDeviceGetRemappedRows"),
    ({"retired_pages_pending": True}, "nvmlDeviceGetRetiredPagesPendingStatus"),
    ({"clocks_event_reasons": 0x40}, "nvmlDeviceGetCurrentClocksEventReasons"),
    ({"recovery_action": 4}, "nvmlDeviceGetFieldValues"),
    ({"nvlinks": 12}, "nvmlDeviceGetNvLinkState"),
]


@pytest.mark.parametrize(("fields", "call"), FAILING)
def test_a_failing_query_does_not_end_the_fault_that_it_showed(fields: dict[str, Any], call: str) -> None:
    story = Story(restarts=True)
    story.last(360.0, **gpu(**fields))
    before = story.rules
    assert len(before) == 1
    unknown: dict[str, Any] = dict.fromkeys(fields)
    story.last(3 * 3600.0, **gpu(**unknown, errors=(f"{call}: GPU requires a reset",)))
    assert {*before, "nvml-errors"} == {*story.rules}
    story.last(3600.0)
    assert story.rules == []


def test_a_value_that_the_gpu_no_longer_supports_ends_the_fault() -> None:
    story = Story()
    story.last(120.0, **gpu(ecc_uncorrected=1))
    story.last(120.0, **gpu(ecc_uncorrected=None))
    assert story.rules == []


def test_a_bus_that_loses_its_last_device_keeps_the_faults_of_the_others() -> None:
    story = Story(restarts=True)
    story.last(120.0, pci=frozenset({SECOND}), nics={})
    story.last(3600.0, pci=frozenset(), nics={})
    vanished = {fault.sign.device.name for fault in story.state.active if fault.sign.rule == "gpu-vanished"}
    assert vanished == {FIRST, SECOND}


def test_a_lost_gpu_keeps_its_other_faults() -> None:
    story = Story()
    story.last(120.0, **gpu(ecc_uncorrected=1))
    story.last(3600.0, **gpu(lost=True))
    assert story.rules == ["ecc-uncorrected", "gpu-lost"]
