"""The memory that is pinned for containers and pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from zonewise_scheduler.admission.memorymanager.memory_requests import (
    empty_shared_memory_pool,
    memory_request,
    pins_memory,
    pod_memory_request,
)
from zonewise_scheduler.admission.node import Policies
from zonewise_scheduler.admission.pod import Amounts, Container, PodLevelResources, PodShape

if TYPE_CHECKING:
    from zonewise_common.k8s.podspec import Role
    from zonewise_scheduler.admission.pod import Qos

STATIC = Policies(memory="Static")
GATED = STATIC._replace(pod_level_managers=True)
PAGES = "hugepages-2Mi"


def container(role: Role, **sizes: int) -> Container:
    """Return a container with bytes of memory and of pages; on its own it would be Guaranteed."""
    names = {"pages": PAGES, "memory": "memory"}
    return Container(role, role, 1000, tuple(sorted((names[name], size) for name, size in sizes.items())))


def pod(*containers: Container, level: Amounts | None = None) -> PodShape:
    return PodShape(containers, "Guaranteed", None if level is None else PodLevelResources(4000, level))


@pytest.mark.parametrize(("memory", "is_static"), [("Static", True), ("None", False)])
@pytest.mark.parametrize(("qos", "is_guaranteed"), [("Guaranteed", True), ("Burstable", False), ("BestEffort", False)])
def test_the_static_policy_pins_memory_of_guaranteed_pods(
    memory: str, is_static: bool, qos: Qos, is_guaranteed: bool
) -> None:
    shape = pod(container("app", memory=1))._replace(qos=qos)
    policies = STATIC._replace(memory=memory)
    assert pins_memory(shape, policies) is (is_static and is_guaranteed)
    assert bool(pod_memory_request(shape, policies)) is (is_static and is_guaranteed)


@pytest.mark.parametrize(
    ("release", "gate", "is_pinned", "request_of_pod"),
    [
        ((1, 33), False, True, 2),
        ((1, 34), False, False, 0),
        ((1, 35), False, False, 0),
        ((1, 36), False, False, 0),
        ((1, 36), True, True, 5),
    ],
)
def test_pods_with_pod_level_resources_by_release(
    release: tuple[int, int], gate: bool, is_pinned: bool, request_of_pod: int
) -> None:
    """Older releases ignore them, later ones skip the pod; with the gate, memory is allocated for the whole pod."""
    shape = pod(container("app", memory=2), level=(("memory", 5),))
    policies = STATIC._replace(release=release, pod_level_managers=gate)
    assert pins_memory(shape, policies) is is_pinned
    assert memory_request(shape, shape.containers[0], policies) == ((("memory", 2),) if is_pinned else ())
    assert pod_memory_request(shape, policies) == ((("memory", request_of_pod),) if is_pinned else ())


@pytest.mark.parametrize("role", ["init", "sidecar"])
def test_types_that_no_app_requests_are_left_out(role: Role) -> None:
    first, app = container(role, memory=3, pages=2), container("app", memory=1)
    memory = 4 if role == "sidecar" else 3
    assert pod_memory_request(pod(first, app), STATIC) == (("memory", memory),)
    both = pod(first, app, container("app", pages=1))
    pages = 3 if role == "sidecar" else 2
    assert pod_memory_request(both, STATIC) == ((PAGES, pages), ("memory", memory))


@pytest.mark.parametrize(
    ("level", "expected"), [((("memory", 0),), ()), ((("memory", 1),), (("memory", 1),)), ((), ())]
)
def test_a_pod_level_request_of_zero_bytes_is_left_out(level: Amounts, expected: Amounts) -> None:
    assert pod_memory_request(pod(container("app", memory=1), level=level), GATED) == expected


@pytest.mark.parametrize(
    ("memory", "shares", "is_empty"),
    [(5, False, False), (5, True, True), (4, True, False), (6, True, True), (4, False, False)],
)
def test_containers_that_share_need_memory(memory: int, shares: bool, is_empty: bool) -> None:
    """A container of a pod of five bytes has exclusive memory; one byte of pages is left for the others."""
    containers = [container("app", memory=memory), *([container("app")] if shares else [])]
    shape = pod(*containers, level=((PAGES, 1), ("memory", 5)))
    assert (empty_shared_memory_pool(shape, GATED) is not None) is is_empty
