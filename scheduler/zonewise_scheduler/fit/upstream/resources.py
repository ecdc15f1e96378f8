"""Names and amounts of resources as the scheduler's libraries sort them (pkg/apis/core/v1/helper/helpers.go)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.topology.quantity import parse_milli
from zonewise_scheduler.fit.upstream.inputs import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

Amounts = dict[str, int]
"""By resource, in thousandths of its unit: the API server keeps nothing finer of what the plugin compares."""

_ALWAYS = frozenset({"cpu", "memory", "pods", "ephemeral-storage"})
"""What a NodeInfo has, whether the node lists it or not (pkg/util/resource.go ResourceList)."""


def read_amounts(quantities: Mapping[str, Any] | None, place: str) -> Amounts:
    """Return a resource list's amounts; raise InputError, naming the place and the text, for what is no quantity."""
    found: Amounts = {}
    for name, text in (quantities or {}).items():
        found[name] = read_amount(text, f"{place}.{name}")
    return found


def read_amount(text: str | int, place: str) -> int:
    """Return thousandths; raise InputError, naming the place and the text, for what is no quantity."""
    try:
        return parse_milli(text)
    except ValueError as error:
        raise InputError(f"{place}: {error}") from error


def whole(amount: int) -> int:
    """Return thousandths as units, rounded up (Quantity.Value())."""
    return -(-amount // 1000)


def is_native(name: str) -> bool:
    """Tell whether Kubernetes itself defines the resource: no domain, or one of kubernetes.io (IsNativeResource)."""
    return "/" not in name or "kubernetes.io/" in name


def is_zonal(name: str) -> bool:
    """Tell whether the kubelet gives it from zones, if only to Guaranteed pods (isNUMAAffineResource)."""
    return name in {"cpu", "memory"} or name.startswith("hugepages-")


def is_of_host(name: str) -> bool:
    """Tell whether no zone need have it: storage, and whatever is not native (isHostLevelResource)."""
    return name in {"ephemeral-storage", "storage"} or not is_native(name)


def known_to_node_info(allocatable: Iterable[str]) -> frozenset[str]:
    """Return the resources of a node that reach plugins (pkg/scheduler/framework/types.go Resource.Add)."""
    return _ALWAYS | {name for name in allocatable if _is_scalar(name)}


def _is_scalar(name: str) -> bool:
    if name.startswith(("hugepages-", "attachable-volumes-")):
        return True
    return (not is_native(name) and not name.startswith("requests.")) or "kubernetes.io/" in name
