"""The checkpoint files of a simulated kubelet, which a real kubelet would accept as its own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from support.kubelets import GIB, pod, short_directory, simulated
from support.snapshots import PROJECT
from support.waiting import eventually
from zonewise.kubelet.types import KubeletConfig
from zonewise_sandbox.kubelet import STATIC, DoesNotFit, Faults, SimulatedDevice, SimulatedKubelet, even_zones
from zonewise_sandbox.kubelet.checksum import cpu_checksum, device_checksum, memory_checksum

if TYPE_CHECKING:
    from pathlib import Path

TRACES = PROJECT.parent / "shared" / "cases" / "kubelet_traces.json"


def read(kubelet: SimulatedKubelet, name: str) -> dict[str, Any]:
    return json.loads((kubelet.directory / name).read_text())


@pytest.mark.skipif(not TRACES.exists(), reason="the kubelet's traces are not beside the project")
def test_checksums_are_the_kubelets() -> None:
    """The checksum of every state file that a 1.36 kubelet wrote is reproduced."""
    traces = json.loads(TRACES.read_text())
    assert len(traces) == 6
    for trace in traces:
        cpu, memory = trace["cpu_manager_state"], trace["memory_manager_state"]
        assert cpu_checksum(cpu) == cpu["checksum"]
        assert memory_checksum(memory) == memory["checksum"]


@pytest.mark.parametrize(
    ("data", "checksum"),
    [
        (
            {
                "PodDeviceEntries": [
                    {
                        "PodUID": "u1",
                        "ContainerName": "c",
                        "ResourceName": "a/b",
                        "DeviceIDs": {"-1": ["n"], "0": ["d1"], "1": ["d1", "d2"], "10": ["x"]},
                        "AllocResp": "CgHI",
                    },
                    {
                        "PodUID": "u2",
                        "ContainerName": "c2",
                        "ResourceName": "a/c",
                        "DeviceIDs": {"0": ["e"]},
                        "AllocResp": "",
                    },
                ],
                "RegisteredDevices": {"a/b": [], "b/x": ["1", "2"]},
            },
            126116443,
        ),
        ({"PodDeviceEntries": None, "RegisteredDevices": {}}, 3467439661),
    ],
)
def test_checksums_of_devices(data: dict[str, Any], checksum: int) -> None:
    """The checksums come from the kubelet's printer and hash, run in Go on structs with the kubelet's names."""
    assert device_checksum(data) == checksum


def test_the_file_of_a_kubelet_without_exclusive_cpus() -> None:
    """The checksum is that of every node with the default policy."""
    with simulated(config=KubeletConfig()) as kubelet:
        assert read(kubelet, "cpu_manager_state") == {
            "policyName": "none",
            "defaultCpuSet": "",
            "checksum": 1353318690,
        }
        assert read(kubelet, "memory_manager_state")["machineState"] == {}


def test_a_pod_in_the_files() -> None:
    """A pod's resources are listed under its UID and the container's name."""
    with simulated() as kubelet:
        kubelet.start(pod("a", 2, memory=GIB, gpus=1))
        kubelet.start(pod("b"))
        state = read(kubelet, "cpu_manager_state")
        assert (state["defaultCpuSet"], state["entries"]) == ("0,3-31", {"uid-a": {"main": "1-2"}})
        memory = read(kubelet, "memory_manager_state")
        assert memory["entries"] == {"uid-a": {"main": [{"numaAffinity": [0], "type": "memory", "size": GIB}]}}
        assert memory["machineState"]["0"]["numberOfAssignments"] == 1
        assert memory["machineState"]["0"]["memoryMap"]["memory"]["reserved"] == GIB
        devices = read(kubelet, "device-plugins/kubelet_internal_checkpoint")["Data"]
        assert [(entry["PodUID"], entry["DeviceIDs"]) for entry in devices["PodDeviceEntries"]] == [
            ("uid-a", {"0": ["gpu-0"]})
        ]
        assert len(devices["RegisteredDevices"]["nvidia.com/gpu"]) == 8


def test_files_are_cleared_as_late_as_a_kubelet_does() -> None:
    """CPUs, memory and devices of a stopped pod remain in the files until the next admission."""
    with simulated() as kubelet:
        kubelet.start(pod("a", 2, memory=GIB, gpus=1))
        kubelet.stop("uid-a")
        assert "uid-a" in read(kubelet, "cpu_manager_state")["entries"]
        assert "uid-a" in read(kubelet, "memory_manager_state")["entries"]
        kubelet.start(pod("b"))
        assert "entries" not in read(kubelet, "cpu_manager_state")
        assert "entries" not in read(kubelet, "memory_manager_state")
        assert read(kubelet, "device-plugins/kubelet_internal_checkpoint")["Data"]["PodDeviceEntries"] is None


def test_a_rejected_pod_clears_cpus_and_memory() -> None:
    """The CPU and Memory Managers remove stopped pods before they compute hints, the Device Manager on allocation."""
    with simulated() as kubelet:
        kubelet.start(pod("a", 2, memory=GIB, gpus=1))
        kubelet.stop("uid-a")
        with pytest.raises(DoesNotFit):
            kubelet.start(pod("b", 32))
        assert "entries" not in read(kubelet, "cpu_manager_state")
        assert "entries" not in read(kubelet, "memory_manager_state")
        assert read(kubelet, "device-plugins/kubelet_internal_checkpoint")["Data"]["PodDeviceEntries"]


def test_the_reconcile_period_clears_cpus() -> None:
    """Memory is not cleared, and without a stopped pod no file is rewritten."""
    with simulated() as kubelet:
        kubelet.start(pod("a", 2, memory=GIB))
        before = (kubelet.directory / "cpu_manager_state").stat().st_ino
        kubelet.reconcile()
        assert (kubelet.directory / "cpu_manager_state").stat().st_ino == before
        kubelet.stop("uid-a")
        kubelet.reconcile()
        assert "entries" not in read(kubelet, "cpu_manager_state")
        assert "uid-a" in read(kubelet, "memory_manager_state")["entries"]


def test_the_reconcile_period_passes_by_itself() -> None:
    with (
        short_directory() as directory,
        SimulatedKubelet(directory, even_zones(2, 8), reconcile_period=0.01) as kubelet,
    ):
        kubelet.restart()
        kubelet.start(pod("a", 2))
        kubelet.stop("uid-a")
        eventually(lambda: "entries" not in read(kubelet, "cpu_manager_state"))


def test_devices_of_several_zones_and_of_none() -> None:
    """A device of several zones is listed under each of them, a device without a zone under -1."""
    devices = [SimulatedDevice("a/multi", "m", (0, 1)), SimulatedDevice("a/none", "n")]
    with (
        short_directory() as directory,
        SimulatedKubelet(directory, even_zones(2, 8), STATIC, devices=devices) as kubelet,
    ):
        expected = pod("a").containers[0]._replace(devices={"a/multi": 1, "a/none": 1})
        kubelet.start(pod("a")._replace(containers=(expected,)))
        entries = read(kubelet, "device-plugins/kubelet_internal_checkpoint")["Data"]["PodDeviceEntries"]
        assert [entry["DeviceIDs"] for entry in entries] == [{"0": ["m"], "1": ["m"]}, {"-1": ["n"]}]


def test_a_late_plugin() -> None:
    """A plugin's devices are registered and allocatable only after it has come, and disappear with a restart."""
    with simulated(Faults(late_plugins=frozenset({"nvidia.com/gpu"}))) as kubelet:
        checkpoint = "device-plugins/kubelet_internal_checkpoint"
        assert read(kubelet, checkpoint)["Data"]["RegisteredDevices"] == {}
        kubelet.register("nvidia.com/gpu")
        kubelet.start(pod("a", gpus=1))
        assert len(read(kubelet, checkpoint)["Data"]["RegisteredDevices"]["nvidia.com/gpu"]) == 8
        kubelet.restart()
        assert read(kubelet, checkpoint)["Data"]["RegisteredDevices"] == {}


def test_no_temporary_files_remain() -> None:
    """The temporary files are renamed."""

    def files(directory: Path) -> list[str]:
        return sorted(str(file.relative_to(directory)) for file in directory.rglob("*") if file.is_file())

    with simulated() as kubelet:
        kubelet.start(pod("a", 1))
        assert files(kubelet.directory) == [
            "cpu_manager_state",
            "device-plugins/kubelet_internal_checkpoint",
            "memory_manager_state",
        ]
