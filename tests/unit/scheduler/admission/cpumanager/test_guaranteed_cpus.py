"""How many exclusive CPUs pods ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.cpu_nodes import STATIC, bits_of, regular, state_of
from zonewise_scheduler.admission.cpumanager import (
    allocate_cpus,
    divide_pod_cpus,
    empty_shared_pool,
    guaranteed_cpus,
    pod_guaranteed_cpus,
    uses_pod_level_managers,
)
from zonewise_scheduler.admission.pod import Container, PodLevelResources, PodShape

if TYPE_CHECKING:
    from zonewise_common.k8s.podspec import Role

GATED = STATIC._replace(pod_level_managers=True)


def container(role: Role, milli_cpus: int, *, memory: int = 1) -> Container:
    """Return a container."""
    return Container(f"{role}{milli_cpus}", role, milli_cpus, (("memory", memory),) if memory else ())


def pod(*containers: Container, own: int | None = None) -> PodShape:
    """Return a guaranteed pod, with CPUs of its own if they are given."""
    return PodShape(containers, "Guaranteed", None if own is None else PodLevelResources(own))


def test_whole_cpus_of_guaranteed_pods() -> None:
    """Only those of guaranteed pods under the static policy that are no fractions."""
    two = container("app", 2000)
    assert guaranteed_cpus(pod(two), two, STATIC) == 2
    assert guaranteed_cpus(pod(two), two, STATIC._replace(cpu="none")) == 0
    assert guaranteed_cpus(pod(two)._replace(qos="Burstable"), two, STATIC) == 0
    half = container("app", 2500)
    assert guaranteed_cpus(pod(half), half, STATIC) == 0


def test_peak_of_init_containers() -> None:
    """An init container runs beside the sidecars before it; sidecars run beside all others."""
    first, sidecar, second = container("init", 5000), container("sidecar", 2000), container("init", 4000)
    assert pod_guaranteed_cpus(pod(first, container("app", 1000)), STATIC) == 5
    assert pod_guaranteed_cpus(pod(first, sidecar, second, container("app", 1000)), STATIC) == 6
    assert pod_guaranteed_cpus(pod(first, sidecar, second, container("app", 5000), container("app", 1500)), STATIC) == 7


@pytest.mark.parametrize(
    ("release", "gate", "request_", "whole"),
    [((1, 33), False, 2, False), ((1, 34), False, 0, False), ((1, 36), True, 2, True)],
)
def test_pods_with_resources_of_their_own(release: tuple[int, int], gate: bool, request_: int, whole: bool) -> None:
    """Not looked at, then given nothing, then given whole."""
    policies = STATIC._replace(release=release, pod_level_managers=gate)
    two = container("app", 2000)
    one = pod(two, own=6000)
    assert guaranteed_cpus(one, two, policies) == request_
    assert uses_pod_level_managers(one, policies) is whole
    assert pod_guaranteed_cpus(one, policies) == (6 if whole else request_)


def test_containers_without_guarantee_share() -> None:
    """In a pod that is given whole, a container without memory, or with higher limits, is given no CPUs of its own."""
    loose = container("app", 2000, memory=0)
    for one in (loose, container("app", 2000)._replace(complete=False)):
        assert guaranteed_cpus(pod(one, own=4000), one, GATED) == 0
        assert guaranteed_cpus(pod(one), one, GATED) == 2
    assert pod_guaranteed_cpus(pod(loose, own=4500), GATED) == 0
    assert pod_guaranteed_cpus(PodShape((loose,), "Guaranteed", PodLevelResources(None)), GATED) == 0


def test_pools_left_empty() -> None:
    """Exclusive CPUs must leave one for containers that share, those that run at the same time."""
    two, shared, sidecar = container("app", 2000), container("app", 0), container("sidecar", 2000)
    assert empty_shared_pool(pod(two, own=2000), GATED) is None
    assert empty_shared_pool(pod(two, shared, own=3000), GATED) is None
    assert "leaving no cpus for shared containers" in str(empty_shared_pool(pod(two, shared, own=2000), GATED))
    late = container("init", 500)
    assert "shared init containers" in str(empty_shared_pool(pod(sidecar, late, own=2000), GATED))
    assert empty_shared_pool(pod(late, sidecar, own=2000), GATED) is None


def test_divided() -> None:
    """Init containers have all but the sidecars', and the shared ones what none of the others has."""
    parts = pod(
        container("init", 2000),
        container("sidecar", 1000),
        container("init", 0),
        container("sidecar", 0),
        container("app", 2000),
        container("app", 500),
        own=6000,
    )
    state = state_of(regular(1, 8, 1), GATED)
    whole = allocate_cpus(state, pod_guaranteed_cpus(parts, GATED), 1, 0)
    assert whole == bits_of("0-5")
    given = ("0-1", "0", "1-5", "3-5", "1-2", "3-5")
    assert divide_pod_cpus(state.kind, parts, whole) == tuple(map(bits_of, given))
