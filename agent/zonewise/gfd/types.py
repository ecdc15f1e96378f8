"""How NVIDIA's device plugin shares and splits GPUs."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

GPU_RESOURCE = "nvidia.com/gpu"
"""The resource of whole GPUs; with the strategy "single" that of MIG devices as well."""

MIG_NONE, MIG_SINGLE, MIG_MIXED = MIG_STRATEGIES = ("none", "single", "mixed")
NO_SHARING, TIME_SLICING, MPS = "none", "time-slicing", "mps"

DMI_PRODUCT = "/sys/class/dmi/id/product_name"
"""GFD's default of machineTypeFile, which is among the facts of the firmware."""


class DevicePluginConfig(NamedTuple):
    """The parts of the device plugin's configuration that decide about labels."""

    mig_strategy: str | None = None
    """One of MIG_STRATEGIES; None where no configuration decides."""
    sharing: str = NO_SHARING
    """NO_SHARING, TIME_SLICING or MPS."""
    replicas: Mapping[str, int] = MappingProxyType({})
    """By resource: how many pods share one device, at least 2; 1 for resources that are absent."""
    renamed: bool = False
    """Whether a shared resource has a name of its own, which ends in ".shared"."""
    machine_type_file: str = ""
    """The file with the machine's type; "": the firmware has it."""
    machine_type: str | None = None
    """The content of that file, "" where it cannot be read; None: there is no such file to read."""


NO_DEVICE_PLUGIN_CONFIG = DevicePluginConfig()
