"""Numbers of exclusive CPUs that pods request."""

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
    return Container(f"{role}{milli_cpus}", role, milli_cpus, (("memory", memory),) if memory else ())


def pod(*containers: Container, pod_level: int | None = None) -> PodShape:
    """Return a guaranteed pod, with pod-level CPUs if they are passed."""
    return PodShape(containers, "Guaranteed", None if pod_level is None else PodLevelResources(pod_level))


def test_whole_cpus_of_guaranteed_pods() -> None:
    """Only whole CPUs of guaranteed pods are exclusive, and only under the static policy."""
    two = container("app", 2000)
    assert guaranteed_cpus(pod(two), two, STATIC) == 2
    assert guaranteed_cpus(pod(two), two, STATIC._replace(cpu="none")) == 0
    assert guaranteed_cpus(pod(two)._replace(qos="Burstable"), two, STATIC) == 0
    half = container("app", 2500)
    assert guaranteed_cpus(pod(half), half, STATIC) == 0


def test_peak_of_init_containers() -> None:
    """An init container runs while earlier sidecars run; sidecars run together with all later containers."""
    first, sidecar, second = container("init", 5000), container("sidecar", 2000), container("init", 4000)
    assert pod_guaranteed_cpus(pod(first, container("app", 1000)), STATIC) == 5
    assert pod_guaranteed_cpus(pod(first, sidecar, second, container("app", 1000)), STATIC) == 6
    assert pod_guaranteed_cpus(pod(first, sidecar, second, container("app", 5000), container("app", 1500)), STATIC) == 7


@pytest.mark.parametrize(
    ("containers", "peak"),
    [
        ((("sidecar", 1), ("app", 1)), 2),
        ((("app", 2), ("app", 3)), 5),
        ((("sidecar", 3), ("init", 3), ("app", 1)), 6),
        ((("sidecar", 3), ("init", 5), ("init", 4), ("app", 1)), 8),
        ((("init", 3), ("sidecar", 3), ("sidecar", 1), ("app", 1)), 5),
    ],
)
def test_sidecars_run_at_the_same_time_as_others(containers: tuple[tuple[Role, int], ...], peak: int) -> None:
    shape = pod(*(container(role, count * 1000) for role, count in containers))
    assert pod_guaranteed_cpus(shape, STATIC) == peak


def test_exclusive_cpus_of_pods_allocated_as_a_whole() -> None:
    """As for other pods, only guaranteed pods have exclusive CPUs, and only under the static policy."""
    shape = pod(container("app", 2000), pod_level=6000)
    assert pod_guaranteed_cpus(shape, GATED) == 6
    assert pod_guaranteed_cpus(shape, GATED._replace(cpu="none")) == 0
    assert pod_guaranteed_cpus(shape._replace(qos="Burstable"), GATED) == 0


@pytest.mark.parametrize("pod_level", [2000, 3000, 4000])
def test_more_exclusive_cpus_than_the_pod_has(pod_level: int) -> None:
    """The API server rejects such pods; if there were one, containers that share CPUs would have none either."""
    apps = pod(container("app", 2000), container("app", 2000), container("app", 0), pod_level=pod_level)
    assert "leaving no cpus for shared containers" in str(empty_shared_pool(apps, GATED))
    inits = pod(container("sidecar", 2000), container("sidecar", 2000), container("init", 0), pod_level=pod_level)
    assert "shared init containers" in str(empty_shared_pool(inits, GATED))


@pytest.mark.parametrize(
    ("release", "gate", "container_cpus", "pod_level"),
    [((1, 33), False, 2, False), ((1, 34), False, 0, False), ((1, 36), True, 2, True)],
)
def test_pod_level_resources_by_release(
    release: tuple[int, int], gate: bool, container_cpus: int, pod_level: bool
) -> None:
    """Older releases ignore them, later ones skip the pod; with the gate, CPUs are allocated for the whole pod."""
    policies = STATIC._replace(release=release, pod_level_managers=gate)
    two = container("app", 2000)
    shape = pod(two, pod_level=6000)
    assert guaranteed_cpus(shape, two, policies) == container_cpus
    assert uses_pod_level_managers(shape, policies) is pod_level
    assert pod_guaranteed_cpus(shape, policies) == (6 if pod_level else container_cpus)


def test_containers_without_guarantee_share() -> None:
    """If the CPUs are allocated for the whole pod, a container without memory or with higher limits shares CPUs."""
    loose = container("app", 2000, memory=0)
    for shared in (loose, container("app", 2000)._replace(complete=False)):
        assert guaranteed_cpus(pod(shared, pod_level=4000), shared, GATED) == 0
        assert guaranteed_cpus(pod(shared), shared, GATED) == 2
    assert pod_guaranteed_cpus(pod(loose, pod_level=4500), GATED) == 0
    assert pod_guaranteed_cpus(PodShape((loose,), "Guaranteed", PodLevelResources(None)), GATED) == 0


def test_empty_shared_pool() -> None:
    """Exclusive CPUs must leave a CPU for shared containers that run at the same time."""
    two, shared, sidecar = container("app", 2000), container("app", 0), container("sidecar", 2000)
    assert empty_shared_pool(pod(two, pod_level=2000), GATED) is None
    assert empty_shared_pool(pod(two, shared, pod_level=3000), GATED) is None
    assert "leaving no cpus for shared containers" in str(empty_shared_pool(pod(two, shared, pod_level=2000), GATED))
    late = container("init", 500)
    assert "shared init containers" in str(empty_shared_pool(pod(sidecar, late, pod_level=2000), GATED))
    assert empty_shared_pool(pod(late, sidecar, pod_level=2000), GATED) is None


def test_divide_pod_cpus() -> None:
    """Init containers get all CPUs except those of sidecars. Shared containers get the rest."""
    shape = pod(
        container("init", 2000),
        container("sidecar", 1000),
        container("init", 0),
        container("sidecar", 0),
        container("app", 2000),
        container("app", 500),
        pod_level=6000,
    )
    state = state_of(regular(1, 8, 1), GATED)
    pod_cpus = allocate_cpus(state, pod_guaranteed_cpus(shape, GATED), 1, 0)
    assert pod_cpus == bits_of("0-5")
    expected = ("0-1", "0", "1-5", "3-5", "1-2", "3-5")
    assert divide_pod_cpus(state.kind, shape, pod_cpus) == tuple(map(bits_of, expected))
