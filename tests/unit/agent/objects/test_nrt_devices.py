"""GPUs and NICs as zones of the report."""

from __future__ import annotations

import pytest

from support.trees import server_tree
from zonewise.machine.discover import discover
from zonewise.machine.files import MemoryFiles
from zonewise.objects.nrt_devices import nic_zones
from zonewise_common.nrt import names

MACHINE = discover(MemoryFiles(server_tree().items()))
DEGRADED, FAILED = "degraded: pcie-width (hardware)", "failed: port-down (hardware)"


@pytest.mark.parametrize(
    ("health", "shown"),
    [
        ({}, None),
        ({"0000:14:00.0": DEGRADED}, DEGRADED),
        ({"0000:14:00.0": DEGRADED, "mlx5_0/1": FAILED}, FAILED),
        ({"0000:14:00.0": FAILED, "mlx5_0/1": DEGRADED}, FAILED),
    ],
)
def test_a_nic_shows_the_worst_fault_of_its_function_and_ports(health: dict[str, str], shown: str | None) -> None:
    zone = next(zone for zone in nic_zones(MACHINE, health) if zone["name"] == "nic-0000-14-00-0")
    attributes = {attribute["name"]: attribute["value"] for attribute in zone["attributes"]}
    assert attributes.get(names.HEALTH) == shown
