"""How NVIDIA's device plugin shares and splits GPUs."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

GPU_RESOURCE = "nvidia.com/gpu"
"""The resource of whole GPUs; with the strategy "single", of MIG devices as well."""

MIG_NONE, MIG_SINGLE, MIG_MIXED = MIG_STRATEGIES = ("none", "single", "mixed")
NO_SHARING, TIME_SLICING, MPS = "none", "time-slicing", "mps"

DMI_PRODUCT = "/sys/class/dmi/id/product_name"
"""GFD's default of machineTypeFile, whose content is one of the firmware facts."""


class DevicePluginConfig(NamedTuple):
    """The parts of the device plugin's configuration that affect labels."""

    mig_strategy: str | None = None
    """One of MIG_STRATEGIES; None if no configuration decides."""
    sharing: str = NO_SHARING
    """NO_SHARING, TIME_SLICING or MPS."""
    replicas: Mapping[str, int] = MappingProxyType({})
    """Number of pods that share one device, at least 2, by resource; 1 for resources that are absent."""
    renamed: bool = False
    """Whether a shared resource has its own name, which ends in ".shared"."""
    machine_type_file: str = ""
    """The file with the machine type; "" if the firmware provides it."""
    machine_type: str | None = None
    """The content of that file, "" if it cannot be read; None if there is no such file to read."""


NO_DEVICE_PLUGIN_CONFIG = DevicePluginConfig()
