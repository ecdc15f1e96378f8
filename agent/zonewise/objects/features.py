"""The machine as Node Feature Discovery's raw features: the input of NFD's rules and labels.

A feature is named "domain.feature". It is a set of names (a flag feature), names with values (attributes), or a list of
these (instances); see NFD's api/nfd/v1alpha1/types.go, and source/*/*.go for each. Unknown features are absent.

Large features, and those that change with pods, are written by group (zonewise.objects.feature_groups). The following
are not read and hence absent: cpu.rdt's RDTL3CA_NUM_CLOSID; serial numbers and asset tags, which identify property;
block devices that software makes (loop, RAM disks, device mapper).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from zonewise.machine.collectors.host.kernel_config import OPTIONS
from zonewise.nfd.types import NO_LOCAL_FEATURES
from zonewise.nfd.worker_config import DEFAULT_WORKER_CONFIG, FEATURE_SOURCES, is_published
from zonewise.objects.cpu_features import cpu_attributes
from zonewise.objects.cpuid import cpuid_features
from zonewise.objects.device_features import device_features
from zonewise.objects.feature_groups import KERNEL_CONFIG, KERNEL_ENABLED_MODULE, NETWORK_PODS
from zonewise.objects.feature_values import Attributes, known_attributes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from zonewise.machine.model.host import Firmware, Kernel
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.model.zone import Zone
    from zonewise.nfd.types import LocalFeatures
    from zonewise.nfd.worker_config import WorkerConfig
    from zonewise.objects.feature_values import Values

_VERSION = re.compile(r"(?P<major>\d+)(\.(?P<minor>\d+))?(\.(?P<revision>\d+))?(-.*)?")
_VERSION_ID = re.compile(r"(?P<major>\d+)(\.(?P<minor>\d+))?(\..*)?")

_DMI_NAMES = {
    "bios_date": "bios_date",
    "bios_vendor": "bios_vendor",
    "bios_version": "bios_version",
    "board_name": "board",
    "board_vendor": "board_vendor",
    "board_version": "board_version",
    "chassis_type": "chassis_type",
    "chassis_vendor": "chassis_vendor",
    "chassis_version": "chassis_version",
    "product_family": "family",
    "product_name": "product",
    "product_sku": "sku",
    "product_version": "version",
    "sys_vendor": "vendor",
}
"""DMI attribute -> field of Firmware."""


class Features(NamedTuple):
    """Raw features by name; empty ones are absent."""

    flags: dict[str, tuple[str, ...]]
    attributes: dict[str, Attributes]
    instances: dict[str, tuple[Attributes, ...]]


def node_features(
    machine: Machine,
    groups: Collection[str] = (),
    local: LocalFeatures = NO_LOCAL_FEATURES,
    worker: WorkerConfig = DEFAULT_WORKER_CONFIG,
    node_name: str = "",
) -> Features:
    """Return all known features, the features of the groups and those of feature files, in canonical order.

    An empty node name is unknown. Features of sources that the worker's configuration disables are absent. The same
    machine, name and files give the same value.
    """
    options = _options(machine.kernel, worker, all_options=KERNEL_CONFIG in groups)
    flags = {
        "cpu.cpuid": tuple(cpuid_features(machine.architecture, machine.model)),
        "kernel.enabledmodule": _enabled_modules(machine.kernel) if KERNEL_ENABLED_MODULE in groups else (),
        "kernel.loadedmodule": machine.kernel.modules or (),
    }
    attributes = {
        **cpu_attributes(machine),
        **_kernel(machine),
        "kernel.config": options,
        **_memory(machine),
        "local.feature": {**local.features},
        "local.label": {name: label.value for name, label in local.labels.items()},
        "system.dmiid": _dmi(machine.firmware),
        "system.name": {"nodename": node_name or None},
        "system.osrelease": _os_release(machine.os_release or {}),
    }
    instances = device_features(machine, with_pods=NETWORK_PODS in groups)
    features = Features(
        {name: elements for name, elements in sorted(flags.items()) if elements},
        {name: elements for name, values in sorted(attributes.items()) if (elements := known_attributes(values))},
        {name: elements for name, elements in sorted(instances.items()) if elements},
    )
    disabled = FEATURE_SOURCES - worker.feature_sources
    return features if not disabled else _filtered(features, lambda name: name.partition(".")[0] not in disabled)


def published_features(features: Features, worker: WorkerConfig) -> Features:
    """Return the features except those that the worker's configuration does not publish."""
    patterns = worker.no_publish_features
    return features if not patterns else _filtered(features, lambda name: is_published(name, patterns))


def _filtered(features: Features, accepts: Callable[[str], bool]) -> Features:
    return Features(
        {name: elements for name, elements in features.flags.items() if accepts(name)},
        {name: elements for name, elements in features.attributes.items() if accepts(name)},
        {name: elements for name, elements in features.instances.items() if accepts(name)},
    )


def _kernel(machine: Machine) -> dict[str, Values]:
    kernel, security = machine.kernel, machine.security
    return {
        "kernel.kvm": {"enabled": security.kvm},
        "kernel.selinux": {"enabled": security.selinux},
        "kernel.version": {} if kernel.release is None else _version(kernel.release),
    }


def _options(kernel: Kernel, worker: WorkerConfig, *, all_options: bool) -> Mapping[str, str]:
    """Return all options that are set, or only those that matter for placement and those that have labels.

    The options come from the file that the worker's configuration names, or from the running kernel.
    """
    usual = frozenset(OPTIONS)
    if worker.kernel_config is not None:
        options = worker.kernel_config
    elif kernel.config_lines and (all_options or not usual.issuperset(worker.kernel_options)):
        options = {name: value for name, _, value in (line.partition("=") for line in kernel.config_lines.splitlines())}
    else:
        options = {name: value for name, value in (kernel.config or {}).items() if value != "n"}
    if all_options:
        return options
    return {name: value for name, value in options.items() if name in usual or name in worker.kernel_options}


def _enabled_modules(kernel: Kernel) -> tuple[str, ...]:
    # as in NFD, the feature is absent if the modules linked into the kernel are unknown
    if kernel.builtin_modules is None:
        return ()
    return tuple(sorted({*kernel.builtin_modules, *(kernel.modules or ())}))


def _version(release: str) -> Values:
    full = re.sub(r"[^-A-Za-z0-9_.]", "_", release).strip("-_.")
    parts = _VERSION.fullmatch(full)
    return {"full": full, **(parts.groupdict() if parts else {})}


def _memory(machine: Machine) -> dict[str, Values]:
    zones = machine.zones
    return {
        "memory.hugepages": _hugepages(zones) if zones else {},
        "memory.numa": {"is_numa": len(zones) > 1, "node_count": len(zones)} if zones else {},
        "memory.swap": {"enabled": None if machine.swap is None else machine.swap > 0},
    }


def _hugepages(zones: Sequence[Zone]) -> Values:
    """Return the number of pages of each size; None if a zone with memory does not report its own."""
    pools = [zone.hugepages for zone in zones if zone.memory != 0 or zone.hugepages]
    sizes = sorted({size for pool in pools for size in pool})
    known = {size for size in sizes if all(size in pool for pool in pools)}
    enabled = any(pages for pool in pools for pages in pool.values())
    return {
        "enabled": enabled or (False if known.issuperset(sizes) else None),
        **{f"hugepages-{size}": sum(pool[size] for pool in pools) if size in known else None for size in sizes},
    }


def _dmi(firmware: Firmware) -> Values:
    return {name: getattr(firmware, field) for name, field in _DMI_NAMES.items()}


def _os_release(fields: Mapping[str, str]) -> Values:
    parts = _VERSION_ID.fullmatch(fields.get("VERSION_ID", ""))
    return {**fields, **({f"VERSION_ID.{name}": text for name, text in parts.groupdict().items()} if parts else {})}
