"""The containers of a pod's spec, in the order in which their requests are computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from zonewise_common.k8s.fields import objects_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zonewise_common.k8s.tolerant import Json

Role = Literal["init", "sidecar", "app"]
"""A sidecar is an init container with restartPolicy Always (KEP-753)."""


def containers(spec: Mapping[str, Any]) -> Iterator[tuple[Role, Json, str]]:
    """Yield the containers with their roles and paths: init containers and sidecars first, then the others.

    Raises FieldError.
    """
    for name in ("initContainers", "containers"):
        for index, container in enumerate(objects_in(spec, name, "spec.")):
            yield _role(name, container), container, f"spec.{name}[{index}]."


def _role(name: str, container: Json) -> Role:
    if name == "containers":
        return "app"
    return "sidecar" if container.get("restartPolicy") == "Always" else "init"
