"""Fields of the objects of the Kubernetes API, as parsed from JSON, with errors that name them.

The place of an owner is told as the path before the field's name: "spec." or "spec.containers[0].".
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, cast

from zonewise_common.k8s.quantity import parse_milli_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


Json = dict[str, Any]
Role = Literal["init", "sidecar", "app"]

_thousandths = lru_cache(1 << 14)(parse_milli_value)


class FieldError(ValueError):
    """A field of an object that no API server would have taken; the text names it and its value."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field


def object_in(owner: Mapping[str, Any], name: str, path: str) -> Json:
    """Return an object within another; an empty one where it is absent."""
    value = owner.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise FieldError(f"{path}{name}", f"not an object: {abbreviated(value)}")
    return cast("Json", value)


def objects_in(owner: Mapping[str, Any], name: str, path: str) -> list[Json]:
    """Return a list of objects within another; an empty one where it is absent."""
    value = owner.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise FieldError(f"{path}{name}", f"not a list: {abbreviated(value)}")
    for place, one in enumerate(cast("list[object]", value)):
        if not isinstance(one, dict):
            raise FieldError(f"{path}{name}[{place}]", f"not an object: {abbreviated(one)}")
    return cast("list[Json]", value)


def string_in(owner: Mapping[str, Any], name: str, path: str) -> str:
    """Return a string within an object; "" where it is absent."""
    value = owner.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise FieldError(f"{path}{name}", f"not a string: {abbreviated(value)}")
    return value


def strings_in(owner: Mapping[str, Any], name: str, path: str) -> tuple[str, ...]:
    """Return a list of strings within an object; an empty one where it is absent."""
    value = owner.get(name)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise FieldError(f"{path}{name}", f"not a list: {abbreviated(value)}")
    for place, one in enumerate(cast("list[object]", value)):
        if not isinstance(one, str):
            raise FieldError(f"{path}{name}[{place}]", f"not a string: {abbreviated(one)}")
    return tuple(cast("list[str]", value))


def string_map_in(owner: Mapping[str, Any], name: str, path: str) -> tuple[tuple[str, str], ...]:
    """Return the strings by key within an object, sorted by key."""
    found = object_in(owner, name, path)
    return tuple((key, string_in(found, key, f"{path}{name}.")) for key in sorted(found))


def quantities_in(owner: Mapping[str, Any], name: str, path: str) -> dict[str, int]:
    """Return quantities by resource, each as amount()."""
    return {
        resource: milli_quantity(value, f"{path}{name}.{resource}")
        for resource, value in object_in(owner, name, path).items()
    }


def milli_quantity(value: object, field: str) -> int:
    """Return a quantity in thousandths of its unit: what the API server rounds it up to.

    pkg/apis/core/v1/defaults.go SetDefaults_ResourceList.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise FieldError(field, f"not a quantity: {abbreviated(value)}")
    try:
        return _thousandths(str(value))
    except ValueError as error:
        raise FieldError(field, str(error)) from None


def containers(spec: Mapping[str, Any]) -> Iterator[tuple[Role, Json, str]]:
    """Yield the containers of a pod's spec with their roles and paths: init containers and sidecars, then the others.

    A sidecar is an init container with restartPolicy Always (KEP-753).
    """
    for name in ("initContainers", "containers"):
        for place, one in enumerate(objects_in(spec, name, "spec.")):
            yield _role(name, one), one, f"spec.{name}[{place}]."


def _role(name: str, container: Json) -> Role:
    if name == "containers":
        return "app"
    return "sidecar" if container.get("restartPolicy") == "Always" else "init"


def abbreviated(value: object) -> str:
    """Return the beginning of a value, for messages."""
    return repr(value)[:80]
