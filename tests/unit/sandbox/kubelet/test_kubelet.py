"""A simulated kubelet's own behaviour; its responses are tested with the code that requests them."""

from __future__ import annotations

import pytest

from support.kubelets import pod, short_directory, simulated
from zonewise_sandbox.kubelet import DoesNotFit, SimulatedKubelet, even_zones


def test_a_pod_that_does_not_fit_leaves_nothing() -> None:
    """The pod is rejected, and the node is unchanged."""
    with simulated() as kubelet:
        before = (kubelet.directory / "cpu_manager_state").read_bytes()
        with pytest.raises(DoesNotFit):
            kubelet.start(pod("a", 32))
        assert (kubelet.directory / "cpu_manager_state").read_bytes() == before
        kubelet.start(pod("a", 31))


def test_a_uid_runs_once() -> None:
    """Starting a second pod with the same UID is an error of the caller."""
    with simulated() as kubelet:
        kubelet.start(pod("a"))
        with pytest.raises(ValueError, match="uid-a is running already"):
            kubelet.start(pod("a"))
        kubelet.stop("uid-a")
        with pytest.raises(KeyError):
            kubelet.stop("uid-a")


def test_a_path_too_long_for_a_socket() -> None:
    """The error names the limit; the system would truncate the path or report an invalid argument."""
    with short_directory() as directory, pytest.raises(ValueError, match="107 bytes"):
        SimulatedKubelet(directory / ("x" * 100), even_zones(1, 1)).serve()
