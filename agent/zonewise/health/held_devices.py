"""Which containers hold which devices: maps the ids of device plugins and Dynamic Resource Allocation to devices.

A GPU's id is its UUID, the UUID of a MIG device, its number (deviceIDStrategy=index), or its PCI address (AMD's
plugin). The id of a shared GPU ends in "::<replica>" (NVIDIA k8s-device-plugin internal/rm/devices.go). The id of a
partition of an AMD GPU is the name of its platform device (ROCm/k8s-device-plugin internal/pkg/amdgpu/amdgpu.go). A
NIC's id is the PCI address of a virtual or physical function (sriov-network-device-plugin). NVIDIA's DRA driver names a
GPU "gpu-<minor>", and a MIG device "gpu-<minor>-mig-<profile>-<start>-<size>" (k8s-dra-driver-gpu, CanonicalName).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.health.types import GPU, MIG, NIC, PORT, DeviceId, PodName

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zonewise.kubelet.types import ContainerResources, PodResources
    from zonewise.machine.model.gpu import MigInstance
    from zonewise.machine.model.machine import Machine

_NVIDIA = "nvidia.com/"
_DRA_DRIVER = "gpu.nvidia.com"
_MIG = "-mig-"


def device_ids(machine: Machine) -> dict[str, tuple[DeviceId, ...]]:
    """Return the devices by each id that a plugin may use for them."""
    ids: dict[str, tuple[DeviceId, ...]] = {}
    for gpu in machine.gpus:
        if gpu.address is None:
            continue
        device = (DeviceId(GPU, gpu.address),)
        ids[gpu.address] = device
        if gpu.uuid:
            ids[gpu.uuid] = device
        ids |= {
            mig.uuid: (*device, *_mig(gpu.address, mig)) for mig in (gpu.mig.instances if gpu.mig else ()) if mig.uuid
        }
        ids |= {part.device: device for part in gpu.partitions if part.device is not None}
        if gpu.minor is not None:
            ids[f"{_DRA_DRIVER}/gpu-{gpu.minor}"] = device
        if gpu.number is not None:
            ids[f"{_NVIDIA}{gpu.number}"] = device
    parts: dict[str, list[DeviceId]] = {nic.address: [] for nic in machine.nics if nic.address is not None}
    for device in machine.infiniband:
        if device.address is not None:
            ports = (DeviceId(PORT, f"{device.name}/{port.number}") for port in device.ports)
            parts.setdefault(device.address, []).extend(ports)
    for function in machine.pci:
        address = function.physical_function or function.address
        if address in parts:
            ids.setdefault(function.address, (DeviceId(NIC, address), *parts[address]))
    return ids


def _mig(address: str, instance: MigInstance) -> Iterator[DeviceId]:
    if instance.gpu_instance is not None and instance.compute_instance is not None:
        yield DeviceId(MIG, f"{address}/{instance.gpu_instance}/{instance.compute_instance}")


def held_devices(
    ids: Mapping[str, tuple[DeviceId, ...]], pods: Iterable[PodResources]
) -> dict[DeviceId, list[PodName]]:
    """Return the containers that hold each device; `ids` is the result of `device_ids`."""
    held: dict[DeviceId, list[PodName]] = {}
    for pod in pods:
        for container in pod.containers:
            name = PodName(pod.namespace, pod.name, container.name)
            for key in _held_ids(container):
                for device in ids.get(key, ()):
                    held.setdefault(device, []).append(name)
    return held


def plugin_ids(ids: Mapping[str, tuple[DeviceId, ...]], failed: Iterable[DeviceId]) -> frozenset[str]:
    """Return the ids that plugins use for failed devices."""
    devices = frozenset(failed)
    return frozenset(key for key, of_key in ids.items() if not devices.isdisjoint(of_key))


def plugin_id(resource: str, device: str) -> str:
    """Return the id under which `device_ids` lists a plugin's device."""
    whole = device.partition("::")[0]
    return f"{_NVIDIA}{whole}" if whole.isdecimal() and resource.startswith(_NVIDIA) else whole


def _held_ids(container: ContainerResources) -> Iterator[str]:
    for devices in container.devices:
        yield from {plugin_id(devices.resource, device) for device in devices.ids}
    for claimed in container.claimed:
        yield f"{claimed.driver}/{claimed.device.partition(_MIG)[0]}"
