"""Topology assignments in the slice encoding of the API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.k8s.fields import FieldError
from zonewise_scheduler.quota.topology.assignment_reader import read_topology_assignment
from zonewise_scheduler.quota.topology.assignment_writer import MAX_DOMAINS
from zonewise_scheduler.quota.topology.types import TopologyAssignment, TopologyDomainAssignment

if TYPE_CHECKING:
    from support.kubelet_cases import Json

_COUNTS = st.lists(st.integers(1, 9), min_size=1, max_size=4)


def slice_of(counts: Any, *levels: Json) -> Json:
    return {"domainCount": 2, "valuesPerLevel": list(levels), "podCounts": counts}


def test_common_values_prefixes_and_suffixes() -> None:
    hosts = {"individual": {"prefix": "node-", "suffix": ".x", "roots": ["1", "2"]}}
    recorded = {
        "levels": ["rack", "host"],
        "slices": [
            slice_of({"universal": 3}, {"universal": "r1"}, hosts),
            slice_of({"individual": [1, 2]}, {"individual": {"roots": ["r2", "r3"]}}, {"universal": "h"}),
        ],
    }
    domains = (("r1", "node-1.x", 3), ("r1", "node-2.x", 3), ("r2", "h", 1), ("r3", "h", 2))
    assert read_topology_assignment(recorded) == TopologyAssignment(
        ("rack", "host"), tuple(TopologyDomainAssignment((rack, host), pods) for rack, host, pods in domains)
    )


@given(_COUNTS)
def test_individual_pod_counts(counts: list[int]) -> None:
    roots = {"individual": {"roots": [str(i) for i in range(len(counts))]}}
    assignment_slice = {"domainCount": len(counts), "valuesPerLevel": [roots], "podCounts": {"individual": counts}}
    assert [
        domain.pods for domain in read_topology_assignment({"levels": ["host"], "slices": [assignment_slice]}).domains
    ] == counts


HOST = {"universal": "h"}


@pytest.mark.parametrize(
    ("slices", "field"),
    [
        *(
            ([{**slice_of({"universal": 1}, HOST), "domainCount": count}], "slices[0].domainCount")
            for count in (0, -1, "2", 2.0, True, None, MAX_DOMAINS + 1, (1 << 31) - 1, 1 << 70)
        ),
        ([slice_of({"universal": 1})], "slices[0].valuesPerLevel"),
        ([slice_of({"universal": 1}, HOST, HOST)], "slices[0].valuesPerLevel"),
        ([slice_of({"individual": [1]}, HOST)], "slices[0].podCounts.individual"),
        (
            [slice_of({"universal": 1}, {"individual": {"roots": ["1"]}})],
            "slices[0].valuesPerLevel[0].individual.roots",
        ),
        ([slice_of({}, HOST)], "slices[0].podCounts.individual"),
        (None, "slices"),
    ],
)
def test_invalid_assignment_names_the_field(slices: list[Json] | None, field: str) -> None:
    with pytest.raises(FieldError) as raised:
        read_topology_assignment({"levels": ["host"], "slices": slices})
    assert raised.value.field == field


@pytest.mark.parametrize(
    ("levels", "counts", "message"),
    [
        (["host"], [1], "not a list of 2 values: [1]"),
        (["host"], [1, "2"], "not a list of 2 values: [1, '2']"),
        ("host", [1, 2], "not a list of valid values: 'host'"),
    ],
)
def test_the_message_contains_the_expected_number_of_values(levels: Any, counts: list[Any], message: str) -> None:
    """It also quotes the values that exist; a list of levels may have any length."""
    with pytest.raises(FieldError) as raised:
        read_topology_assignment({"levels": levels, "slices": [slice_of({"individual": counts}, HOST)]})
    assert message in str(raised.value)
