"""The labels of NVIDIA's GPU Feature Discovery, from what NVML reports.

Names and values are those of its code (k8s-device-plugin, internal/lm). Labels that depend on the device plugin's
configuration have the value of its defaults, which is no sharing. These are gpu.replicas 1 (0 for GPUs split into MIG
instances), gpu.sharing-strategy "none", and mps.capable "false"; mig.strategy is absent as with the strategy "none".
MIG instances are described by profile, as GFD does with the strategy "mixed", the only one under which each has a name.
On a node with several models GFD describes an arbitrary one; here a value that differs is absent.

Not written: gfd.timestamp, which changes at each restart and would cause a write to every node. Unknown here:
vgpu.host-driver-version and -branch, in a part of the PCI configuration space that only root can read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zonewise.objects.uniform_value import uniform_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise.machine.model.gpu import Gpu, MigInstance
    from zonewise.machine.model.machine import Machine

PREFIX = "nvidia.com"

_MIB = 1 << 20
_FAMILIES = {
    "1": "tesla", "2": "fermi", "3": "kepler", "5": "maxwell", "6": "pascal", "9": "hopper", "10": "blackwell",
    "12": "blackwell", "13": "rubin",
}  # fmt: skip
"""By the major number of the compute capability; 7 and 8 are split by the minor one."""

_MODES = {"0300": "graphics", "0302": "compute"}
"""By PCI class: VGA controller, 3D controller."""


def gfd_labels(machine: Machine) -> dict[str, str]:
    """Return GFD's labels by name; none where no NVIDIA GPU is reported by NVML."""
    gpus = [gpu for gpu in machine.gpus if gpu.vendor == "nvidia" and gpu.uuid is not None]
    if not gpus:
        return {}
    labels = {f"{PREFIX}/gpu.count": str(len(gpus))}
    for part in (_machine_labels(machine, gpus), _versions(gpus), _model(gpus), _mig(gpus), _fabric(gpus)):
        labels.update((f"{PREFIX}/{name}", value) for name, value in part)
    return labels


def sanitized_name(text: str) -> str:
    """Return a product name as GFD writes it: other characters dropped, spaces as dashes."""
    return "-".join(re.sub(r"[^A-Za-z0-9-_. ]", "", text).split())


def _machine_labels(machine: Machine, gpus: list[Gpu]) -> Iterator[tuple[str, str]]:
    if machine.firmware.product is not None:
        yield "gpu.machine", sanitized_name(machine.firmware.product)
    own = {gpu.address for gpu in gpus}
    classes = {function.pci_class for function in machine.pci if function.address in own}
    if classes:
        yield "gpu.mode", _MODES.get(next(iter(classes)) or "", "unknown") if len(classes) == 1 else "unknown"
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


def _model(gpus: list[Gpu]) -> Iterator[tuple[str, str]]:
    model = uniform_value(gpu.model for gpu in gpus)
    if model is not None:
        yield "gpu.product", sanitized_name(model)
        # GFD: NewGPUResourceLabelerWithoutSharing for a model of which every GPU is in MIG mode
        yield "gpu.replicas", "0" if all(gpu.mig is not None and gpu.mig.enabled for gpu in gpus) else "1"
    yield "gpu.sharing-strategy", "none"
    yield "mps.capable", "false"
    memory = uniform_value(gpu.memory for gpu in gpus)
    if memory is not None:
        yield "gpu.memory", str(memory // _MIB)
    capability = uniform_value(gpu.compute_capability for gpu in gpus)
    # GFD describes no capability 0 (newArchitectureLabels)
    if capability is not None and re.fullmatch(r"[1-9]\d*\.\d+", capability):
        major, minor = capability.split(".")
        yield "gpu.family", _family(major, int(minor))
        yield from _numbered("gpu.compute", {"major": major, "minor": minor})


def _family(major: str, minor: int) -> str:
    if major == "7":
        return "volta" if minor < 5 else "turing"
    if major == "8":
        return "ampere" if minor < 9 else "ada-lovelace"
    return _FAMILIES.get(major, "undefined")


def _mig(gpus: list[Gpu]) -> Iterator[tuple[str, str]]:
    yield "mig.capable", "true" if any(gpu.mig is not None for gpu in gpus) else "false"
    instances = [
        (gpu, instance) for gpu in gpus for instance in (gpu.mig.instances if gpu.mig else ()) if instance.profile
    ]
    for profile in sorted({instance.profile for _, instance in instances if instance.profile}):
        group = [(gpu, instance) for gpu, instance in instances if instance.profile == profile]
        plain = profile.replace("+", ".")  # "1g.10gb+me" is the resource nvidia.com/mig-1g.10gb.me
        name = f"mig-{plain}"
        yield f"{name}.count", str(len(group))
        yield f"{name}.replicas", "1"
        yield f"{name}.sharing-strategy", "none"
        model = uniform_value(gpu.model for gpu, _ in group)
        if model is not None:
            yield f"{name}.product", f"{sanitized_name(model)}-MIG-{sanitized_name(plain)}"
        yield from _numbered(name, _sizes([instance for _, instance in group]))


def _sizes(instances: list[MigInstance]) -> dict[str, str]:
    memory = uniform_value(instance.memory for instance in instances)
    sizes = {
        "memory": None if memory is None else memory // _MIB,
        "multiprocessors": uniform_value(instance.multiprocessors for instance in instances),
        "slices.gi": uniform_value(instance.gpu_slices for instance in instances),
        "slices.ci": uniform_value(instance.compute_slices for instance in instances),
        "engines.copy": uniform_value(instance.copy_engines for instance in instances),
        "engines.decoder": uniform_value(instance.decoders for instance in instances),
        "engines.encoder": uniform_value(instance.encoders for instance in instances),
        "engines.jpeg": uniform_value(instance.jpeg_engines for instance in instances),
        "engines.ofa": uniform_value(instance.ofa_engines for instance in instances),
    }
    return {name: str(size) for name, size in sizes.items() if size is not None}


def _fabric(gpus: list[Gpu]) -> Iterator[tuple[str, str]]:
    attached = {(gpu.fabric.cluster_uuid, gpu.fabric.clique) for gpu in gpus if gpu.fabric and gpu.fabric.attached}
    if len(attached) == 1:
        cluster, clique = attached.pop()
        if cluster is not None and clique is not None:
            yield "gpu.clique", f"{cluster}.{clique}"


def _numbered(name: str, parts: dict[str, str]) -> Iterator[tuple[str, str]]:
    yield from ((f"{name}.{part}", value) for part, value in parts.items())
