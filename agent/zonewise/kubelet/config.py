"""The fields of a KubeletConfiguration (kubelet.config.k8s.io/v1beta1) that affect zones.

Defaults are those of pkg/kubelet/apis/config/v1beta1/defaults.go. Validation follows pkg/kubelet/apis/config/validation
and the startup checks of the managers. No kubelet runs with a value that is rejected here, so such a document is
useless.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from zonewise.kubelet.types import KubeletConfig
from zonewise_common.k8s.cpuset import EMPTY, CpuSet
from zonewise_common.k8s.quantity import parse_milli_value, parse_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_BOOLEAN_OPTIONS = frozenset({
    "full-pcpus-only", "distribute-cpus-across-numa", "align-by-socket", "distribute-cpus-across-cores",
    "strict-cpu-reservation", "prefer-align-cpus-by-uncorecache", "prefer-closest-numa-nodes",
})  # fmt: skip
"""Options in cm/cpumanager/policy_options.go and cm/topologymanager/policy_options.go."""

_MAX_ZONES = "max-allowable-numa-nodes"
_LEAST_MAX_ZONES = 8  # cm/topologymanager/topology_manager.go defaultMaxAllowableNUMANodes

_PARSE_BOOL = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), "true"),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), "false"),
}
"""Texts that Go's strconv.ParseBool accepts."""

T = TypeVar("T")


class KubeletConfigError(ValueError):
    """A configuration with which no kubelet runs; the message names the origin, and each field with its value."""


def parse_config(document: Mapping[str, object], *, origin: str) -> KubeletConfig:
    """Return the configuration with defaults filled in; unknown fields are ignored.

    Options keep their names and values, booleans as "true" or "false". Options of the Topology Manager are empty under
    the policy none, under which the kubelet does not read them. Raises KubeletConfigError.
    """
    fields = _Fields(document)
    policy = fields.choice("topologyManagerPolicy", "none", "best-effort", "restricted", "single-numa-node")
    reserved = fields.cpus("reservedSystemCPUs")
    config = KubeletConfig(
        cpu_manager_policy=fields.choice("cpuManagerPolicy", "none", "static"),
        cpu_manager_options=fields.options("cpuManagerPolicyOptions"),
        memory_manager_policy=fields.choice("memoryManagerPolicy", "None", "Static"),
        topology_manager_policy=policy,
        topology_manager_scope=fields.choice("topologyManagerScope", "container", "pod"),
        topology_manager_options=fields.options("topologyManagerPolicyOptions") if policy != "none" else (),
        reserved_cpus=reserved,
        reserved_milli_cpus=fields.reserved_milli_cpus(reserved),
        reserved_memory=fields.reserved_memory(),
        feature_gates=fields.gates(),
    )
    if fields.errors:
        raise KubeletConfigError(f"{origin}: {'; '.join(sorted(fields.errors))}")
    return config


class _Fields:
    """The fields of one document, and the errors in them; null counts as absent, as in Go."""

    def __init__(self, document: Mapping[str, object]) -> None:
        self._document = document
        self.errors: list[str] = []

    def choice(self, field: str, default: str, *alternatives: str) -> str:
        value = self._document.get(field)
        if value is None or value == "":
            return default
        if value not in (default, *alternatives):
            self._reject(field, value, f"must be one of {', '.join((default, *alternatives))}")
        return str(value)

    def cpus(self, field: str) -> CpuSet | None:
        """Return a CPU set; None if it is absent or empty, which the kubelet treats alike."""
        value = self._document.get(field)
        return None if value is None else self._parsed(field, value, _cpus, EMPTY) or None

    def options(self, field: str) -> tuple[tuple[str, str], ...]:
        return tuple(
            (name, self._parsed(f"{field}.{name}", value, partial(_option, name), ""))
            for name, value in self._entries(field)
        )

    def gates(self) -> tuple[tuple[str, bool], ...]:
        return tuple(
            (name, self._parsed(f"featureGates.{name}", value, _boolean, False))
            for name, value in self._entries("featureGates")
        )

    def reserved_milli_cpus(self, cpus: CpuSet | None) -> int:
        """Return the CPU time that is reserved from pods; a list of CPUs replaces both other fields.

        cmd/kubelet/app/server.go run(): --reserved-cpus overwrites the cpu of kubeReserved and systemReserved.
        """
        total = sum(
            self._parsed(f"{field}.cpu", value, _milli, 0)
            for field in ("systemReserved", "kubeReserved")
            for name, value in self._entries(field)
            if name == "cpu"
        )
        return 1000 * len(cpus) if cpus else total

    def reserved_memory(self) -> tuple[tuple[int, str, int], ...]:
        reserved: dict[tuple[int, str], int] = {}
        for field, zone, kind, value in self._reservations():
            if (zone, kind) in reserved:
                self._reject(field, value, f"zone {zone} has a different one")
            reserved[zone, kind] = self._parsed(field, value, _bytes, 0)
        return tuple((zone, kind, reserved[zone, kind]) for zone, kind in sorted(reserved))

    def _reservations(self) -> Iterator[tuple[str, int, str, object]]:
        """Yield the field, zone, type and amount of each reservation."""
        listed = self._document.get("reservedMemory")
        if listed is not None and not isinstance(listed, list):
            self._reject("reservedMemory", listed, "must be a list")
            return
        for number, entry in enumerate(cast("list[object]", listed or [])):
            field = f"reservedMemory[{number}]"
            if not isinstance(entry, Mapping):
                self._reject(field, entry, "must have numaNode and limits")
                continue
            content = cast("Mapping[str, object]", entry)
            zone = content.get("numaNode", 0)  # an absent number is 0 in Go
            if not isinstance(zone, int) or isinstance(zone, bool) or zone < 0:
                self._reject(f"{field}.numaNode", zone, "must be the number of a NUMA node")
                continue
            for kind, amount in self._sorted(f"{field}.limits", content.get("limits")):
                yield f"{field}.limits.{kind}", zone, kind, amount

    def _entries(self, field: str) -> list[tuple[str, object]]:
        return self._sorted(field, self._document.get(field))

    def _sorted(self, field: str, value: object) -> list[tuple[str, object]]:
        if value is not None and not isinstance(value, Mapping):
            self._reject(field, value, "must be a mapping of values")
            return []
        return sorted((str(name), content) for name, content in cast("Mapping[Any, object]", value or {}).items())

    def _parsed(self, field: str, value: object, parse: Callable[[Any], T], default: T) -> T:
        try:
            return parse(value)
        except ValueError as error:
            self._reject(field, value, str(error))
            return default

    def _reject(self, field: str, value: object, reason: str) -> None:
        self.errors.append(f"{field}: {repr(value)[:80]}: {reason}")


def _cpus(value: object) -> CpuSet:
    if not isinstance(value, str):
        raise ValueError("must be a string")
    return CpuSet.parse_list(value)


def _option(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a string")
    if name in _BOOLEAN_OPTIONS and value not in _PARSE_BOOL:
        raise ValueError('must be "true" or "false"')
    if name == _MAX_ZONES and not (re.fullmatch(r"\+?[0-9]{1,18}", value, re.ASCII) and int(value) >= _LEAST_MAX_ZONES):
        raise ValueError(f"must be a number of at least {_LEAST_MAX_ZONES}")
    return _PARSE_BOOL.get(value, value) if name in _BOOLEAN_OPTIONS else value


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def _milli(value: object) -> int:
    return parse_milli_value(_quantity(value))


def _bytes(value: object) -> int:
    return parse_value(_quantity(value))


def _quantity(value: object) -> str:
    """Return a quantity as text; in YAML and JSON it may be a bare number."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("must be a quantity")
    if str(value).startswith("-"):
        raise ValueError("must not be negative")
    return str(value)
