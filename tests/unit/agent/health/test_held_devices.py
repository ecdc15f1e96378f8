"""The mapping of ids of device plugins and of Dynamic Resource Allocation to devices of the machine."""

from __future__ import annotations

import pytest

from support.trees import server_tree
from zonewise.health.held_devices import device_ids, held_devices, plugin_ids
from zonewise.health.types import GPU, DeviceId
from zonewise.kubelet.types import ClaimedDevice, ContainerDevices, ContainerResources, PodResources
from zonewise.machine.discover import discover
from zonewise.machine.files import MemoryFiles
from zonewise.machine.model.gpu import Mig, MigInstance, Partition

SCANNED = discover(MemoryFiles(server_tree().items()))
MIG = Mig(True, True, (MigInstance("MIG-1", "1g.10gb", 1, 0, None, None),))
FIRST, SECOND = SCANNED.gpus[0], SCANNED.gpus[1]
MACHINE = SCANNED._replace(
    gpus=(FIRST._replace(uuid="GPU-1", minor=0, number=0), SECOND._replace(uuid="GPU-2", minor=1, number=1, mig=MIG))
)
IDS = device_ids(MACHINE)


def held(container: ContainerResources) -> list[str]:
    return [str(device) for device in held_devices(IDS, [PodResources("ns", "pod", (container,))])]


@pytest.mark.parametrize(
    ("resource", "device", "devices"),
    [
        ("nvidia.com/gpu", "GPU-1", ["gpu 0000:13:00.0"]),
        ("nvidia.com/gpu.shared", "GPU-2::7", ["gpu 0000:83:00.0"]),
        ("nvidia.com/gpu", "1", ["gpu 0000:83:00.0"]),
        ("nvidia.com/mig-1g.10gb", "MIG-1", ["gpu 0000:83:00.0", "mig 0000:83:00.0/1/0"]),
        ("amd.com/gpu", "0000:13:00.0", ["gpu 0000:13:00.0"]),
        ("nvidia.com/sriov_rdma", "0000:14:00.0", ["nic 0000:14:00.0", "port mlx5_0/1"]),
        ("example.com/dongle", "1", []),
    ],
)
def test_ids_of_plugins(resource: str, device: str, devices: list[str]) -> None:
    assert held(ContainerResources("main", devices=(ContainerDevices(resource, (device,)),))) == devices


@pytest.mark.parametrize("name", ["gpu-1", "gpu-1-mig-9-0-1"])
def test_claims(name: str) -> None:
    claims = tuple(ClaimedDevice(driver, "node", name, "ns/c") for driver in ("gpu.nvidia.com", "gpu.example.com"))
    assert held(ContainerResources("main", claimed=claims)) == ["gpu 0000:83:00.0"]


def test_ids_of_the_partitions_of_an_amd_gpu() -> None:
    """The first partition has the address of the GPU, the others have names of their own."""
    parts = tuple(
        Partition(number, None, None, None, None, name) for number, name in enumerate((None, "amdgpu_xcp_30"))
    )
    ids = device_ids(MACHINE._replace(gpus=(FIRST._replace(partitions=parts),)))
    device = DeviceId(GPU, "0000:13:00.0")
    for name, devices in (("0000:13:00.0", [device]), ("amdgpu_xcp_30", [device]), ("amdgpu_xcp_31", [])):
        container = ContainerResources("main", devices=(ContainerDevices("amd.com/gpu", (name,)),))
        assert list(held_devices(ids, [PodResources("ns", "pod", (container,))])) == devices
    assert {"0000:13:00.0", "amdgpu_xcp_30"} <= plugin_ids(ids, [device])


def test_ids_of_a_failed_gpu() -> None:
    ids = plugin_ids(IDS, [DeviceId(GPU, "0000:83:00.0")])
    assert ids == {"GPU-2", "MIG-1", "0000:83:00.0", "nvidia.com/1", "gpu.nvidia.com/gpu-1"}
