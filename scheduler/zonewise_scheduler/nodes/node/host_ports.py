"""Ports of the host that pods listen on (k8s.io/kube-scheduler/framework/types.go HostPortInfo)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.k8s.fields import FieldError, abbreviated, object_in, objects_in, string_in
from zonewise_common.k8s.podspec import containers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ALL_ADDRESSES = "0.0.0.0"  # noqa: S104 -- what the API means by it, nothing is bound

_HIGHEST = 65535


class HostPort(NamedTuple):
    """A port of the host."""

    ip: str
    protocol: str
    port: int


def host_ports(pod: Mapping[str, Any]) -> tuple[HostPort, ...]:
    """Return the host ports of a pod's containers and sidecars, sorted (pkg/scheduler/util/utils.go GetHostPorts).

    On the network of the host, each port is one (pkg/apis/core/v1/defaults.go defaultHostNetworkPorts). Raises
    FieldError, naming field and value, for what is no port.
    """
    spec = object_in(pod, "spec", "")
    on_host = spec.get("hostNetwork") is True
    found: set[HostPort] = set()
    for role, container, at in containers(spec):
        for one in objects_in(container, "ports", at) if role != "init" else ():
            port = _port(one, "hostPort", at) or (_port(one, "containerPort", at) if on_host else 0)
            if port:
                found.add(
                    HostPort(
                        string_in(one, "hostIP", at) or ALL_ADDRESSES, string_in(one, "protocol", at) or "TCP", port
                    )
                )
    return tuple(sorted(found))


def ports_conflict(requested: Iterable[HostPort], used: Iterable[HostPort]) -> bool:
    """Tell whether any port is wanted that is used already: on the same address, or either on all of them."""
    taken = tuple(used)
    return any(
        one.port == other.port
        and one.protocol == other.protocol
        and (one.ip == other.ip or ALL_ADDRESSES in (one.ip, other.ip))
        for one in requested
        for other in taken
    )


def _port(one: Mapping[str, Any], name: str, at: str) -> int:
    value = one.get(name)
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _HIGHEST:
        raise FieldError(f"{at}ports.{name}", f"not a port: {abbreviated(value)}")
    return value
