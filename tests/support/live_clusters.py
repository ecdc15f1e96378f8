"""Clusters of the live queue, in memory and real, side by side for tests that hold for both.

A test file takes the fixtures by import and names them in `__all__`:

    from support.live_clusters import cluster, real_cluster, simulated_cluster
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.live_cluster import LiveCluster, real_live_cluster, simulated_live_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def simulated_cluster() -> Iterator[LiveCluster]:
    """A cluster in memory that all tests of a file share."""
    with simulated_live_cluster() as running:
        yield running


@pytest.fixture(scope="module")
def real_cluster() -> Iterator[LiveCluster]:
    """A real one."""
    with real_live_cluster() as running:
        yield running


@pytest.fixture(params=["simulated", "real"])
def cluster(request: pytest.FixtureRequest) -> Iterator[LiveCluster]:
    """Each of the two in turn, empty."""
    live: LiveCluster = request.getfixturevalue(f"{request.param}_cluster")
    yield live
    live.clear()
