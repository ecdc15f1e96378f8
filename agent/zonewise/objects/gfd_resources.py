"""The labels that GPU Feature Discovery writes for each resource of the device plugin: whole GPUs and MIG devices.

The rules are those of k8s-device-plugin's internal/lm (resource.go, mig-strategy.go). A resource whose devices
pods share has a number of replicas. Its product ends in "-SHARED" unless the resource's name ends in ".shared".

| MIG strategy | MIG devices |
|---|---|
| none | have no labels |
| single | have the labels of nvidia.com/gpu; unless all GPUs are split alike, its product ends in "-MIG-INVALID" |
| mixed | have labels by profile, such as nvidia.com/mig-1g.10gb |

Without a configuration MIG devices have the labels of the strategy "mixed", the only one that names each profile.
The label mig.strategy is then absent.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from zonewise.gfd.types import GPU_RESOURCE, MIG_MIXED, MIG_SINGLE, MPS, NO_SHARING
from zonewise.objects.uniform_value import uniform_value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise.gfd.types import DevicePluginConfig
    from zonewise.machine.model.gpu import Gpu, MigInstance

_MIB = 1 << 20
_FAMILIES = {
    "1": "tesla", "2": "fermi", "3": "kepler", "5": "maxwell", "6": "pascal", "9": "hopper", "10": "blackwell",
    "12": "blackwell", "13": "rubin",
}  # fmt: skip
"""The family by major compute capability; 7 and 8 are split by the minor version."""

_Labels = dict[str, object]
"""Labels by name without the resource; None means unknown."""


class _MigDevice(NamedTuple):
    model: str | None
    """Model of its GPU."""
    instance: MigInstance


def resource_labels(gpus: list[Gpu], config: DevicePluginConfig) -> dict[str, str]:
    """Return the labels of all resources by name; `gpus` are the GPUs that NVML lists, at least one."""
    split = [gpu for gpu in gpus if _is_split(gpu)]
    labels = _labels_of(GPU_RESOURCE, _whole_gpus(gpus, split, config))
    labels["nvidia.com/mig.capable"] = "true" if any(gpu.mig is not None for gpu in gpus) else "false"
    # GFD rejects MPS on a node with a GPU in MIG mode (nvml.go, isMPSCapable)
    labels["nvidia.com/mps.capable"] = "true" if config.sharing == MPS and not split else "false"
    if config.mig_strategy in (MIG_SINGLE, MIG_MIXED):
        labels["nvidia.com/mig.strategy"] = config.mig_strategy
    if config.mig_strategy == MIG_SINGLE and split:
        # if a MIG device does not report a size, its GPU's size must not be used
        labels.pop(f"{GPU_RESOURCE}.memory", None)
        labels |= _labels_of(GPU_RESOURCE, _single(gpus, split, config))
    elif config.mig_strategy in (MIG_MIXED, None):
        for profile, devices in sorted(_by_profile(gpus).items()):
            resource = f"nvidia.com/mig-{profile}"
            labels |= _labels_of(resource, _mig_devices(resource, profile, devices, config))
    return labels


def sanitized_name(text: str) -> str:
    """Return a product name as GFD writes it: spaces become dashes, other characters are dropped."""
    return "-".join(re.sub(r"[^A-Za-z0-9-_. ]", "", text).split())


def _is_split(gpu: Gpu) -> bool:
    return gpu.mig is not None and gpu.mig.enabled


def _labels_of(resource: str, labels: _Labels) -> dict[str, str]:
    return {f"{resource}.{name}": str(value) for name, value in labels.items() if value is not None}


def _whole_gpus(gpus: list[Gpu], split: list[Gpu], config: DevicePluginConfig) -> _Labels:
    model = uniform_value(gpu.model for gpu in gpus)
    labels: _Labels = {"count": len(gpus), "memory": _mebibytes(gpu.memory for gpu in gpus), **_architecture(gpus)}
    if len(split) < len(gpus):
        return labels | {"product": _product(GPU_RESOURCE, config, model), **_sharing(GPU_RESOURCE, config)}
    # no GPU can be allocated as a whole (resource.go, NewGPUResourceLabelerWithoutSharing)
    product = None if model is None else sanitized_name(model)
    return labels | {"product": product, "replicas": 0, "sharing-strategy": NO_SHARING}


def _architecture(gpus: list[Gpu]) -> _Labels:
    capability = uniform_value(gpu.compute_capability for gpu in gpus)
    # GFD does not describe capability 0 (newArchitectureLabels)
    if capability is None or not re.fullmatch(r"[1-9]\d*\.\d+", capability):
        return {}
    major, minor = capability.split(".")
    return {"family": _family(major, int(minor)), "compute.major": major, "compute.minor": minor}


def _family(major: str, minor: int) -> str:
    if major == "7":
        return "volta" if minor < 5 else "turing"
    if major == "8":
        return "ampere" if minor < 9 else "ada-lovelace"
    return _FAMILIES.get(major, "undefined")


def _sharing(resource: str, config: DevicePluginConfig) -> _Labels:
    replicas = config.replicas.get(resource, 1)
    return {"replicas": replicas, "sharing-strategy": config.sharing if replicas > 1 else NO_SHARING}


def _product(resource: str, config: DevicePluginConfig, *parts: str | None) -> str | None:
    names = [sanitized_name(part) for part in parts if part is not None]
    if len(names) < len(parts):
        return None
    shared = config.replicas.get(resource, 1) > 1 and not config.renamed
    return "-".join([*names, "SHARED"] if shared else names)


def _by_profile(gpus: list[Gpu]) -> dict[str, list[_MigDevice]]:
    """Return the MIG devices by profile; "1g.10gb+me" becomes the resource nvidia.com/mig-1g.10gb.me."""
    devices: dict[str, list[_MigDevice]] = defaultdict(list)
    for gpu in gpus:
        for instance in gpu.mig.instances if gpu.mig is not None else ():
            if instance.profile:
                devices[instance.profile.replace("+", ".")].append(_MigDevice(gpu.model, instance))
    return devices


def _single(gpus: list[Gpu], split: list[Gpu], config: DevicePluginConfig) -> _Labels:
    """Return the labels of MIG devices that pods request as whole GPUs (newMigStrategySingleLabeler)."""
    profiles = _by_profile(split)
    has_empty = any(gpu.mig is not None and not gpu.mig.instances for gpu in split)
    if has_empty or len(split) < len(gpus) or len(profiles) != 1:
        product = _product("", config, split[0].model, "MIG", "INVALID")
        return {"product": product, "count": 0, "replicas": 0, "sharing-strategy": "", "memory": 0}
    profile, devices = profiles.popitem()
    return _mig_devices(GPU_RESOURCE, profile, devices, config)


def _mig_devices(resource: str, profile: str, devices: list[_MigDevice], config: DevicePluginConfig) -> _Labels:
    model = uniform_value(device.model for device in devices)
    product = _product(resource, config, model, "MIG", profile)
    sizes = _sizes([device.instance for device in devices])
    return {"count": len(devices), "product": product, **_sharing(resource, config), **sizes}


def _sizes(instances: list[MigInstance]) -> _Labels:
    return {
        "memory": _mebibytes(instance.memory for instance in instances),
        "multiprocessors": uniform_value(instance.multiprocessors for instance in instances),
        "slices.gi": uniform_value(instance.gpu_slices for instance in instances),
        "slices.ci": uniform_value(instance.compute_slices for instance in instances),
        "engines.copy": uniform_value(instance.copy_engines for instance in instances),
        "engines.decoder": uniform_value(instance.decoders for instance in instances),
        "engines.encoder": uniform_value(instance.encoders for instance in instances),
        "engines.jpeg": uniform_value(instance.jpeg_engines for instance in instances),
        "engines.ofa": uniform_value(instance.ofa_engines for instance in instances),
    }


def _mebibytes(amounts: Iterable[int | None]) -> int | None:
    amount = uniform_value(amounts)
    return None if amount is None else amount // _MIB
