"""Clusters of the live queue, in memory and real, for tests whose claims hold for both.

A test file imports the fixtures and names them in `__all__`:

    from support.live_clusters import cluster, real_cluster, simulated_cluster

If the real programs are there, only `make test-long` runs the tests in memory too.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import pytest

from support.live_cluster import LiveCluster, real_live_cluster, simulated_live_cluster
from support.programs import find_program
from support.sharing import shared

if TYPE_CHECKING:
    from collections.abc import Iterator


IN_MEMORY = [pytest.mark.long] if all(map(find_program, ("etcd", "kube-apiserver", "kube-controller-manager"))) else []
"""Marks of a test in memory that also runs on real servers."""
CLUSTERS = [pytest.param("simulated", marks=IN_MEMORY), "real"]


@pytest.fixture(scope="module")
def simulated_cluster() -> Iterator[LiveCluster]:
    """Yield an in-memory cluster that all tests of a file share."""
    with simulated_live_cluster() as running:
        yield running


@pytest.fixture(scope="module")
def real_cluster() -> LiveCluster:
    """Return a real cluster that test files share."""
    return shared("real_cluster", real_live_cluster)


@pytest.fixture(scope="module")
def simulated_unscheduled_cluster() -> Iterator[LiveCluster]:
    """Yield an in-memory cluster without a scheduler that all tests of a file share."""
    with simulated_live_cluster(scheduled=False) as running:
        yield running


@pytest.fixture(scope="module")
def real_unscheduled_cluster() -> LiveCluster:
    """Return a real cluster without a scheduler that test files share."""
    return shared("real_unscheduled_cluster", functools.partial(real_live_cluster, scheduled=False))


@pytest.fixture(params=CLUSTERS)
def unscheduled_cluster(request: pytest.FixtureRequest) -> Iterator[LiveCluster]:
    """Yield an empty cluster without a scheduler, in memory or on real servers."""
    live: LiveCluster = request.getfixturevalue(f"{request.param}_unscheduled_cluster")
    yield live
    live.clear()


@pytest.fixture(params=CLUSTERS)
def cluster(request: pytest.FixtureRequest) -> Iterator[LiveCluster]:
    """Yield an empty cluster, in memory or on real servers."""
    live: LiveCluster = request.getfixturevalue(f"{request.param}_cluster")
    yield live
    live.clear()
