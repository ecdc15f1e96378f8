"""The host in a node description."""

from __future__ import annotations

import pytest

from zonewise_scheduler.fabric.host_names import host_of, is_aggregation_node


@pytest.mark.parametrize(
    ("description", "host"),
    [
        ("a08-p1-dgx-04-c01 mlx5_5", "a08-p1-dgx-04-c01"),
        ("b05-p1-dgx-05-c03 HCA-6", "b05-p1-dgx-05-c03"),
        ("Node7.Example.COM hfi1_0", "node7.example.com"),
        ("node7 ibp24s0", "node7"),
        ("node7", "node7"),
        ("MT4129 ConnectX7   Mellanox Technologies", ""),
        ("Mellanox Technologies", ""),
        ("Mellanox Technologies Aggregation Node", ""),
        ("localhost HCA-1", ""),
        ("localhost.localdomain mlx5_0", ""),
        ("-node mlx5_0", ""),
        ("no_de mlx5_0", ""),
        ("node7 mlx5_0 extra", ""),
        ("", ""),
    ],
)
def test_host(description: str, host: str) -> None:
    """Two words, or one of a name map. A model or a name that all hosts have is no host."""
    assert host_of(description) == host


def test_aggregation_node() -> None:
    """Each switch with SHARP has such an HCA."""
    assert is_aggregation_node("Mellanox Technologies Aggregation Node")
    assert not is_aggregation_node("node7 mlx5_0")
