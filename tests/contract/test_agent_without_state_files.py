"""`zonewise agent` with the kubelet directories that the DaemonSet mounts: sockets and the device checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.agents import GPU, Site, new_site
from support.kubelets import pod

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def site() -> Iterator[Site]:
    with new_site() as without_agent:
        yield without_agent


def mounted(site: Site) -> Path:
    """Return a directory with those parts of the kubelet's directory that are mounted by default."""
    directory = site.directory / "m"
    directory.mkdir()
    for name in ("pod-resources", "pods-api", "device-plugins"):
        (directory / name).symlink_to(site.kubelet.directory / name)
    return directory


def test_pods_come_and_go(site: Site) -> None:
    """CPUs, memory and devices are those of the PodResources API, and are available again when the pod ends."""
    resources = ("cpu", "memory", GPU)
    agent = site.start("--kubelet-dir", str(mounted(site)))
    agent.until(lambda: site.available() is not None)
    idle = {resource: site.available(resource) for resource in resources}
    site.kubelet.start(pod("a", 3, memory=1 << 30, gpus=1))
    busy = {"cpu": (12, 16), "memory": less(idle["memory"], 1 << 30), GPU: (1, 2)}
    agent.until(lambda: {resource: site.available(resource) for resource in resources} == busy)
    site.kubelet.stop("uid-a")
    agent.until(lambda: {resource: site.available(resource) for resource in resources} == idle)


def less(amounts: tuple[int, ...] | None, size: int) -> tuple[int, ...]:
    assert amounts is not None
    return (amounts[0] - size, *amounts[1:])
