"""Parses the configuration of NVIDIA's device plugin, a file that GPU Feature Discovery reads too.

The rules are those of k8s-device-plugin's api/config/v1 (parseConfigFrom, the UnmarshalJSON of replicas.go and
resources.go). A file that these reject is rejected here. GFD calls DisableResourceNamingInConfig. Like GFD, the parser
ignores names of shared resources other than the default name, and the selection of devices.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from zonewise.gfd.types import MIG_NONE, MIG_STRATEGIES, MPS, NO_SHARING, TIME_SLICING, DevicePluginConfig
from zonewise_common.k8s.yaml_document import load_first_document

if TYPE_CHECKING:
    from collections.abc import Mapping

_VERSION = "v1"
_PREFIX = "nvidia.com/"
_MAX_RESOURCE_NAME = 63
_RESOURCE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_MIN_REPLICAS = 2
_DISCOVERY_STRATEGIES = ("auto", "nvml", "tegra", "vfio")
_UUID = "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_DEVICE = re.compile(rf"\d{{1,20}}(:\d{{1,20}})?|(GPU|MIG)-{_UUID}|MIG-GPU-{_UUID}/\d{{1,20}}/\d{{1,20}}", re.ASCII)
"""The index of a GPU, the index of a MIG device, or a UUID (replicas.go, ReplicatedDeviceRef)."""

_Fields = dict[str, Any]


class DevicePluginConfigError(Exception):
    """A configuration that cannot be used; the message has the field, its value and the valid values."""


def parse_device_plugin_config(content: bytes) -> DevicePluginConfig:
    """Return the configuration in a YAML or JSON file. Raises DevicePluginConfigError."""
    try:
        document = _fields(load_first_document(content), "the file")
    except ValueError as error:
        raise DevicePluginConfigError(f"is {error}") from error
    version = _get(document, "version")
    if version not in (None, "", _VERSION):
        raise DevicePluginConfigError(f"version: {version!r} is not supported; only {_VERSION} is")
    flags = _fields(_get(document, "flags"), "flags")
    strategy = _get(flags, "migStrategy")
    if strategy is not None and strategy not in MIG_STRATEGIES:
        raise DevicePluginConfigError(f"flags.migStrategy: {strategy!r} is not one of {', '.join(MIG_STRATEGIES)}")
    discovery = _get(flags, "deviceDiscoveryStrategy")
    if discovery is not None and discovery not in _DISCOVERY_STRATEGIES:
        raise DevicePluginConfigError(
            f"flags.deviceDiscoveryStrategy: {discovery!r} is not one of {', '.join(_DISCOVERY_STRATEGIES)}"
        )
    machine_type_file = _get(_fields(_get(flags, "gfd"), "flags.gfd"), "machineTypeFile") or ""
    if not isinstance(machine_type_file, str):
        raise DevicePluginConfigError(f"flags.gfd.machineTypeFile: {machine_type_file!r} must be a path")
    config = DevicePluginConfig(mig_strategy=strategy or MIG_NONE, machine_type_file=machine_type_file)
    sharing = _fields(_get(document, "sharing"), "sharing")
    mps, slices = _get(sharing, "mps"), _get(sharing, "timeSlicing")
    # both are checked, and MPS takes precedence (sharing.go, ReplicatedResources)
    shared = [(MPS, *_resources(mps, "sharing.mps"))] if mps is not None else []
    if slices is not None:
        shared.append((TIME_SLICING, *_resources(slices, "sharing.timeSlicing")))
    strategy, replicas, renamed = shared[0] if shared else (NO_SHARING, {}, False)
    return config._replace(sharing=strategy, replicas=replicas, renamed=renamed)


def _fields(value: object, name: str) -> _Fields:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise DevicePluginConfigError(f"{name}: must be a mapping, not {type(value).__name__}")
    return cast("_Fields", value)


def _get(fields: Mapping[str, Any], name: str) -> object:
    """Return a field; like Go's decoder, accept its name in any case if no field has the exact name."""
    if name in fields:
        return fields[name]
    return next((value for key, value in fields.items() if str(key).lower() == name.lower()), None)


def _resources(value: object, path: str) -> tuple[dict[str, int], bool]:
    """Return the replicas by resource, and whether shared resources have their own names."""
    fields = _fields(value, path)
    renamed = _boolean(fields, "renameByDefault", path)
    _boolean(fields, "failRequestsGreaterThanOne", path)
    resources = fields.get("resources")
    if not isinstance(resources, list) or not resources:
        raise DevicePluginConfigError(f"{path}.resources: must be a list with at least one resource")
    replicas: dict[str, int] = {}
    for index, entry in enumerate(cast("list[object]", resources)):
        name, count = _resource(entry, f"{path}.resources[{index}]")
        replicas.setdefault(name, count)  # the first one counts (resource.go, replicationInfo)
    return replicas, renamed


def _resource(value: object, path: str) -> tuple[str, int]:
    fields = _fields(value, path)
    if "rename" in fields:
        _resource_name(fields["rename"], f"{path}.rename")
    name = _resource_name(fields.get("name"), f"{path}.name")
    if "devices" in fields:
        _check_devices(fields["devices"], f"{path}.devices")
    replicas = fields.get("replicas")
    if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < _MIN_REPLICAS:
        raise DevicePluginConfigError(
            f"{path}.replicas: {replicas!r} must be a whole number of at least {_MIN_REPLICAS}"
        )
    return name, replicas


def _boolean(fields: Mapping[str, Any], name: str, path: str) -> bool:
    value = fields.get(name)
    if value is not None and not isinstance(value, bool):
        raise DevicePluginConfigError(f"{path}.{name}: {value!r} must be true or false")
    return value or False


def _check_devices(value: object, path: str) -> None:
    """Raise DevicePluginConfigError if the selection of devices is damaged (replicas.go, ReplicatedDevices)."""
    entries = cast("list[object]", value) if isinstance(value, list) else ()
    is_count = isinstance(value, int) and not isinstance(value, bool) and value > 0
    if value != "all" and not is_count and not isinstance(value, list):
        raise DevicePluginConfigError(f"{path}: {value!r} must be all, a number of devices, or a list of devices")
    for i, entry in enumerate(entries):
        if not _DEVICE.fullmatch(entry if isinstance(entry, str) else str(entry)):
            raise DevicePluginConfigError(f"{path}[{i}]: {entry!r} is neither the index nor the UUID of a device")


def _resource_name(value: object, path: str) -> str:
    if not isinstance(value, str):
        raise DevicePluginConfigError(f"{path}: {value!r} must be a resource name")
    name = value if value.startswith(_PREFIX) else _PREFIX + value
    if len(name) > _MAX_RESOURCE_NAME or not _RESOURCE_NAME.fullmatch(name.removeprefix(_PREFIX)):
        raise DevicePluginConfigError(f"{path}: {value[:100]!r} is not a resource name")
    return name
