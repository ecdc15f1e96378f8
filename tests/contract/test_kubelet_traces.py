"""Recorded kubelets: our account of each zone equals the kubelet's own state, number by number.

The tests compute the expected numbers from the recorded JSON, by rules that are as simple as possible:

- A CPU is available if it is in the default set, or in an entry of a pod that List does not contain. It must not be
  reserved.
- Memory is available if the Memory Manager's table shows it as free.
- A device is available if no pod holds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.crd import NODE_RESOURCE_TOPOLOGY, refusals
from support.kubelet_cases import (
    ABSENT,
    Json,
    cases,
    given,
    machine_of_case,
    machine_of_trace,
    report_of_case,
    report_of_trace,
    stale_cpus_of_trace,
    traces,
)
from zonewise.kubelet.types import KubeletReport, StateFiles
from zonewise.objects.nrt import machine_to_nrt
from zonewise.usage.node_usage import KubeletNotReady, node_usage
from zonewise_common.k8s.cpuset import CpuSet

if TYPE_CHECKING:
    from zonewise.machine.model.machine import Machine
    from zonewise.usage.types import Usage

recorded = pytest.mark.skipif(not traces(), reason=ABSENT)


def accounted(machine: Machine, report: KubeletReport) -> Usage:
    usage = node_usage(machine, report)
    assert not isinstance(usage, KubeletNotReady)
    assert usage.problems == ()
    return usage


def available(usage: Usage) -> dict[int, dict[str, int]]:
    """Return the available amounts by zone, without amounts of 0."""
    return {
        one.zone: {name: amount.available for name, amount in one.amounts.items() if amount.available}
        for one in usage.zones
    }


def positive(amounts: dict[str, int]) -> dict[str, int]:
    return {name: size for name, size in amounts.items() if size}


# --- whole kubelets


def truth_of_trace(trace: Json, zone: int) -> dict[str, int]:
    shape = trace["machine"]
    cpus = {
        zone * shape["cores_per_numa"] + core + shape["numa"] * shape["cores_per_numa"] * thread
        for core in range(shape["cores_per_numa"])
        for thread in range(shape["smt"])
    }
    free = set(CpuSet.parse_list(trace["cpu_manager_state"]["defaultCpuSet"])) | set(stale_cpus_of_trace(trace))
    reserved = set(CpuSet.parse_list(trace["kubelet_config"]["reservedSystemCPUs"]))
    found = {"cpu": len((free - reserved) & cpus)}
    memory = trace["memory_manager_state"]["machineState"][str(zone)]["memoryMap"]
    found |= {kind: table["free"] for kind, table in memory.items()}
    entries: list[Json] = trace["device_checkpoint"] or []
    held = {
        (entry["ResourceName"], device) for entry in entries for ids in entry["DeviceIDs"].values() for device in ids
    }
    for entry in trace["get_allocatable"].get("devices", []):
        near = {int(node.get("ID", 0)) for node in entry.get("topology", {}).get("nodes", [])}
        if zone in near:
            left = sum((entry["resource_name"], device) not in held for device in entry["device_ids"])
            found[entry["resource_name"]] = found.get(entry["resource_name"], 0) + left
    return positive(found)


@recorded
@pytest.mark.parametrize("name", traces())
def test_a_whole_kubelet(name: str) -> None:
    """Every quantity of every zone equals that in the kubelet's state files."""
    trace = traces()[name]
    usage = accounted(machine_of_trace(trace), report_of_trace(trace))
    assert available(usage) == {one.zone: truth_of_trace(trace, one.zone) for one in usage.zones}


@recorded
@pytest.mark.parametrize("name", traces())
def test_a_whole_kubelet_without_its_files(name: str) -> None:
    """The result from only List is the same, except for CPUs of ended init containers, which List does not contain."""
    trace = traces()[name]
    report = report_of_trace(trace)
    usage = accounted(machine_of_trace(trace), report._replace(state=StateFiles()))
    assert report.state.cpu is not None
    listed = CpuSet.union(container.cpus for pod in report.pods for container in pod.containers)
    held = CpuSet.union(cpus for of_pod in report.state.cpu.entries.values() for cpus in of_pod.values())
    for one, zone in zip(usage.zones, machine_of_trace(trace).zones, strict=True):
        told, truth = available(usage)[one.zone], truth_of_trace(trace, one.zone)
        leftovers = held - listed - stale_cpus_of_trace(trace)
        assert told.pop("cpu", 0) - len(leftovers & zone.cpus) == truth.pop("cpu", 0)
        assert told == truth


@recorded
@pytest.mark.parametrize("name", traces())
def test_groups(name: str) -> None:
    """The account names the zones in one group of the Memory Manager, as the kubelet does."""
    trace = traces()[name]
    for files in (True, False):
        report = report_of_trace(trace)
        usage = accounted(machine_of_trace(trace), report if files else report._replace(state=StateFiles()))
        for one in usage.zones:
            cells = trace["memory_manager_state"]["machineState"][str(one.zone)]["cells"]
            assert one.memory_group == (tuple(cells) if len(cells) > 1 else ())


@recorded
@pytest.mark.parametrize("name", traces())
def test_the_object(name: str) -> None:
    """An API server accepts the object of each kubelet, and its numbers are those of the account."""
    trace = traces()[name]
    machine, report = machine_of_trace(trace), report_of_trace(trace)
    usage = accounted(machine, report)
    made = machine_to_nrt(machine, "node", usage, report.config)
    assert list(refusals(made, NODE_RESOURCE_TOPOLOGY)) == []
    for zone, one in zip(made["zones"], usage.zones, strict=False):
        assert zone["name"] == f"node-{one.zone}"
        told = {resource["name"]: int(resource["available"]) for resource in zone["resources"]}
        assert told == {resource: amount.available for resource, amount in one.amounts.items()}


def test_devices_without_zones() -> None:
    """Devices without topology, and those with zone -1 from their plugin, are counted outside the zones."""
    if not traces():
        pytest.skip(ABSENT)
    trace = next(trace for name, trace in traces().items() if name.startswith("devices"))
    usage = accounted(machine_of_trace(trace), report_of_trace(trace))
    told = {resource: (amount.allocatable, amount.available) for resource, amount in usage.unzoned.items()}
    assert told == {"lab.io/dev": (1, 1), "lab.io/neg": (1, 1), "lab.io/notopo": (2, 1)}


# --- only the managers


def truth_of_case(case: Json, state: Json, node: Json, held: set[tuple[str, str]]) -> dict[str, int]:
    cpus, reserved = {cpu["id"] for cpu in node["cpus"]}, set(case["machine"]["reservedCPUs"])
    shared = case["kubelet"]["cpuManagerPolicy"] == "none"
    found = {"cpu": len((cpus if shared else cpus & set(state["defaultCPUSet"])) - reserved)}
    if case["kubelet"]["memoryManagerPolicy"] == "Static":
        found |= {kind: table["free"] for kind, table in state["memoryNodes"][str(node["id"])]["table"].items()}
    else:
        pages: dict[str, int] = node.get("hugepagesBytes", {})
        found |= {"memory": node["memoryBytes"] - sum(pages.values())} | pages
    for resource, devices in case["machine"]["devices"].items():
        near = [device for device in devices if node["id"] in (device["numa"] or []) and device["healthy"]]
        found[resource] = sum((resource, device["id"]) not in held for device in near)
    return positive(found)


def held_devices(state: Json, without: set[str]) -> set[tuple[str, str]]:
    return {
        (resource, device)
        for uid, of_pod in given(state["deviceAssignments"]).items()
        if uid not in without
        for of_container in of_pod.values()
        for resource, ids in of_container.items()
        for device in ids
    }


def unseen(case: Json) -> set[str]:
    """Return the pods for which List shows no resources: only their ended init containers had any."""
    return {pod.name for pod in report_of_case(case).pods if not any(any(one[1:]) for one in pod.containers)}


def wrong_zones(case: Json, report: KubeletReport, held: set[tuple[str, str]]) -> list[Any]:
    """Return the zones whose reported amounts are wrong, given the devices that are held."""
    told = available(accounted(machine_of_case(case), report))
    truth = {node["id"]: truth_of_case(case, case["state"], node, held) for node in case["machine"]["numaNodes"]}
    return [(case["id"], zone, told[zone], truth[zone]) for zone in truth if told[zone] != truth[zone]]


@recorded
def test_only_the_managers() -> None:
    """If cgroups are known, every quantity of every zone equals the managers' state in all recorded admissions."""
    wrong: list[Any] = []
    for case in cases():
        wrong += wrong_zones(case, report_of_case(case), held_devices(case["state"], set()))
    assert wrong == []
    assert len(cases()) == 813


@recorded
def test_only_the_managers_without_cgroups() -> None:
    """If no cgroups are known, the same holds except for the devices of some init containers.

    An ended init container may leave devices to a pod that holds nothing else. They count as free, since such a pod
    cannot be distinguished from a removed one (zonewise.usage.pod_matching).
    """
    wrong: list[Any] = []
    surprised: set[int] = set()
    for case in cases():
        report = report_of_case(case)._replace(active=None)
        wrong += wrong_zones(case, report, held_devices(case["state"], unseen(case)))
        if wrong_zones(case, report, held_devices(case["state"], set())):
            surprised.add(case["id"])
    assert wrong == []
    assert len(surprised) == 41


def has_init_memory(case: Json) -> bool:
    """Return whether init containers hold memory.

    The recording does not contain what List shows about it. For init containers that continue to run beside the others,
    List shows their memory.
    """
    pods: list[Json] = list(given(case["state"]["memoryAssignments"]).values())
    return any(name.startswith("i") and any(block["size"] for block in pod[name]) for pod in pods for name in pod)


@recorded
def test_only_the_managers_without_their_files() -> None:
    """Without the checkpoints, every quantity equals what List shows."""
    wrong: list[Any] = []
    for case in cases():
        usage = accounted(machine_of_case(case), report_of_case(case, files=False))
        state = case["podresourcesVisibleState"] or case["state"]
        unknown = ("memory", "hugepages-") if has_init_memory(case) else ()
        for node in case["machine"]["numaNodes"]:
            truth = truth_of_case(case, state, node, held_devices(state, set()))
            told = available(usage)[node["id"]]
            if any(told.get(name, 0) != truth.get(name, 0) for name in told | truth if not name.startswith(unknown)):
                wrong.append((case["id"], node["id"], told, truth))
    assert wrong == []
