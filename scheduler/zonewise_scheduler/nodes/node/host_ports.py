"""Host ports of pods (k8s.io/kube-scheduler/framework/types.go HostPortInfo)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.k8s.fields import FieldError, object_in, objects_in, string_in
from zonewise_common.k8s.podspec import containers
from zonewise_common.k8s.tolerant import abbreviated

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ALL_ADDRESSES = "0.0.0.0"  # noqa: S104 -- a value of the API, no socket

_HIGHEST = 65535


class HostPort(NamedTuple):
    """A port of the node's host network."""

    ip: str
    protocol: str
    port: int


def host_ports(pod: Mapping[str, Any]) -> tuple[HostPort, ...]:
    """Return the host ports of a pod's containers and sidecars, sorted (pkg/scheduler/util/utils.go GetHostPorts).

    With hostNetwork, each container port is a host port (pkg/apis/core/v1/defaults.go defaultHostNetworkPorts). Raises
    FieldError, which names field and value, for an invalid port.
    """
    spec = object_in(pod, "spec", "")
    on_host = spec.get("hostNetwork") is True
    ports: set[HostPort] = set()
    for role, container, path in containers(spec):
        for entry in objects_in(container, "ports", path) if role != "init" else ():
            port = _port(entry, "hostPort", path) or (_port(entry, "containerPort", path) if on_host else 0)
            if port:
                ports.add(
                    HostPort(
                        string_in(entry, "hostIP", path) or ALL_ADDRESSES,
                        string_in(entry, "protocol", path) or "TCP",
                        port,
                    )
                )
    return tuple(sorted(ports))


def ports_conflict(requested: Iterable[HostPort], used: Iterable[HostPort]) -> bool:
    """Return whether a requested port is in use on the same address, or if either of the two is on all addresses."""
    used_ports = tuple(used)
    return any(
        port.port == used_port.port
        and port.protocol == used_port.protocol
        and (port.ip == used_port.ip or ALL_ADDRESSES in (port.ip, used_port.ip))
        for port in requested
        for used_port in used_ports
    )


def _port(entry: Mapping[str, Any], name: str, path: str) -> int:
    value = entry.get(name)
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _HIGHEST:
        raise FieldError(f"{path}ports.{name}", f"not a port: {abbreviated(value)}")
    return value
