"""The labels of NVIDIA's GPU Feature Discovery, derived from NVML's data.

Names and values are those of its code (k8s-device-plugin, internal/lm). zonewise.objects.gfd_resources contains the
labels of resources, which depend on how the device plugin shares and splits GPUs. On a node with several models GFD
describes an arbitrary one; here a label is absent if its value differs.

Not written: gfd.timestamp, which changes at each restart and would cause a write to every node. Unknown here:
vgpu.host-driver-version and -branch, which are in a part of the PCI configuration space that only root can read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zonewise.gfd.types import NO_DEVICE_PLUGIN_CONFIG
from zonewise.objects.gfd_resources import resource_labels, sanitized_name
from zonewise.objects.uniform_value import uniform_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise.gfd.types import DevicePluginConfig
    from zonewise.machine.model.gpu import Gpu
    from zonewise.machine.model.machine import Machine

PREFIX = "nvidia.com"

_MODES = {"0300": "graphics", "0302": "compute"}
"""Mode by PCI class: VGA controller, 3D controller."""

_DISPLAYS = {"DGX Display", "NVIDIA DGX Display"}
"""Models of the display adapter of a DGX Station, which the device plugin does not offer (go-nvlib, New)."""

_UNKNOWN = "unknown"


def gfd_labels(machine: Machine, config: DevicePluginConfig = NO_DEVICE_PLUGIN_CONFIG) -> dict[str, str]:
    """Return GFD's labels by name, for the NVIDIA GPUs that programs can use; none without such GPUs."""
    gpus = [gpu for gpu in machine.gpus if _is_offered(gpu)]
    if not gpus:
        return {}
    labels: dict[str, str] = {}
    for part in (_machine_labels(machine, gpus, config), _versions(gpus), _fabric(gpus)):
        labels.update((f"{PREFIX}/{name}", value) for name, value in part)
    return labels | resource_labels(gpus, config)


def _is_offered(gpu: Gpu) -> bool:
    return gpu.vendor == "nvidia" and gpu.uuid is not None and gpu.state is None and gpu.model not in _DISPLAYS


def _machine_labels(machine: Machine, gpus: list[Gpu], config: DevicePluginConfig) -> Iterator[tuple[str, str]]:
    # GFD writes "unknown" if the firmware has no name for the machine (machine-type.go)
    product = machine.firmware.product if config.machine_type is None else config.machine_type
    yield "gpu.machine", sanitized_name(product or _UNKNOWN)
    own = {gpu.address for gpu in gpus}
    classes = {function.pci_class for function in machine.pci if function.address in own}
    if classes:
        yield "gpu.mode", _MODES.get(next(iter(classes)) or "", _UNKNOWN) if len(classes) == 1 else _UNKNOWN
    kinds = {gpu.virtualization for gpu in gpus}
    if "vgpu" in kinds or None not in kinds:
        yield "vgpu.present", "true" if "vgpu" in kinds else "false"


def _versions(gpus: list[Gpu]) -> Iterator[tuple[str, str]]:
    driver = uniform_value(gpu.driver_version for gpu in gpus)
    if driver is not None and re.fullmatch(r"\d+\.\d+(\.\d+)?", driver):
        major, minor, revision = [*driver.split("."), ""][:3]
        yield from _numbered("cuda.driver-version", {"major": major, "minor": minor, "revision": revision})
        yield "cuda.driver-version.full", driver
        yield from _numbered("cuda.driver", {"major": major, "minor": minor, "rev": revision})
    runtime = uniform_value(gpu.cuda_version for gpu in gpus)
    if runtime is not None and re.fullmatch(r"\d+\.\d+", runtime):
        major, minor = runtime.split(".")
        yield from _numbered("cuda.runtime-version", {"major": major, "minor": minor, "full": runtime})
        yield from _numbered("cuda.runtime", {"major": major, "minor": minor})


def _fabric(gpus: list[Gpu]) -> Iterator[tuple[str, str]]:
    attached = {(gpu.fabric.cluster_uuid, gpu.fabric.clique) for gpu in gpus if gpu.fabric and gpu.fabric.attached}
    if len(attached) == 1:
        cluster, clique = attached.pop()
        if cluster is not None and clique is not None:
            yield "gpu.clique", f"{cluster}.{clique}"


def _numbered(name: str, parts: dict[str, str]) -> Iterator[tuple[str, str]]:
    yield from ((f"{name}.{part}", value) for part, value in parts.items())
