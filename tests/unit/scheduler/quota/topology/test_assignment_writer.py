"""Topology assignments in the encoding of the API."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from support.admissions import topology_assignments
from zonewise_scheduler.quota.topology import assignment_writer
from zonewise_scheduler.quota.topology.assignment_reader import read_topology_assignment
from zonewise_scheduler.quota.topology.assignment_writer import MAX_DOMAINS, MAX_SLICES, write_topology_assignment
from zonewise_scheduler.quota.topology.types import HOSTNAME, TopologyAssignment, TopologyDomainAssignment


def on_nodes(*names: str, pods: int = 1) -> TopologyAssignment:
    return TopologyAssignment((HOSTNAME,), tuple(TopologyDomainAssignment((name,), pods) for name in names))


@given(topology_assignments())
def test_an_assignment_is_read_as_it_was_written(assignment: TopologyAssignment) -> None:
    assert read_topology_assignment(write_topology_assignment(assignment)) == assignment


@pytest.mark.parametrize(("prefix", "suffix"), [("node-", ".example"), ("n", ".x"), ("node-", ""), ("", "-node")])
def test_common_parts_of_names_are_written_once(prefix: str, suffix: str) -> None:
    roots = ["1", "22", "321"]
    [part] = write_topology_assignment(on_nodes(*(f"{prefix}{root}{suffix}" for root in roots)))["slices"]
    common = {name: text for name, text in (("prefix", prefix), ("suffix", suffix)) if text}
    assert part == {
        "domainCount": 3,
        "valuesPerLevel": [{"individual": {"roots": roots, **common}}],
        "podCounts": {"universal": 1},
    }


def test_common_parts_do_not_overlap() -> None:
    [part] = write_topology_assignment(on_nodes("ababa", "aba"))["slices"]
    assert part["valuesPerLevel"] == [{"individual": {"roots": ["ba", ""], "prefix": "aba"}}]


def test_one_value_and_several_counts() -> None:
    domains = (TopologyDomainAssignment(("b1", "r1"), 4), TopologyDomainAssignment(("b1", "r2"), 2))
    [part] = write_topology_assignment(TopologyAssignment(("block", "rack"), domains))["slices"]
    assert part["valuesPerLevel"] == [{"universal": "b1"}, {"individual": {"roots": ["1", "2"], "prefix": "r"}}]
    assert part["podCounts"] == {"individual": [4, 2]}


def test_runs_of_names_have_separate_slices_if_that_is_shorter() -> None:
    names = [f"first-very-long-rack-name-{i}" for i in range(50)] + [
        f"second-very-long-rack-name-{i}" for i in range(50)
    ]
    slices = write_topology_assignment(on_nodes(*names))["slices"]
    assert [item["domainCount"] for item in slices] == [50, 50]
    mixed = [name for pair in zip(names[:50], names[50:], strict=True) for name in pair]
    assert len(write_topology_assignment(on_nodes(*mixed))["slices"]) == 1


def test_the_limits_are_those_of_the_api() -> None:
    """apis/kueue/v1beta2/workload_types.go: maxItems of the slices, and maximum of their domainCount."""
    assert (MAX_SLICES, MAX_DOMAINS) == (1000, 100_000)


def test_a_large_assignment_does_not_exceed_the_limits_of_the_api() -> None:
    names = [f"block-{i // 80}-node-{i % 80}" for i in range(MAX_DOMAINS + 1)]
    assignment = on_nodes(*names)
    written = write_topology_assignment(assignment)
    assert 2 <= len(written["slices"]) <= MAX_SLICES
    assert max(item["domainCount"] for item in written["slices"]) <= MAX_DOMAINS
    assert read_topology_assignment(written) == assignment
    assert len(json.dumps(written)) < 1_500_000


@pytest.mark.parametrize(
    ("sizes", "domain_counts"),
    [
        ([9, 9, 9], [9, 9, 9]),
        ([9, 9, 9, 9], [9, 9, 9, 9]),
        ([9, 9, 9, 9, 9], [20, 20, 5]),
        ([9, 9, 21], [9, 9, 20, 1]),
        ([9, 9, 9, 21], [20, 20, 8]),
    ],
)
def test_runs_have_separate_slices_up_to_the_limit(
    monkeypatch: pytest.MonkeyPatch, sizes: list[int], domain_counts: list[int]
) -> None:
    """The slices of a divided large run count too; here, four slices of 20 domains are permitted."""
    monkeypatch.setattr(assignment_writer, "MAX_SLICES", 4)
    monkeypatch.setattr(assignment_writer, "MAX_DOMAINS", 20)
    stems = [f"{letter * 30}-rack" for letter in "abcde"]
    assignment = on_nodes(*(f"{stem}-{i}" for stem, size in zip(stems, sizes, strict=False) for i in range(size)))
    written = write_topology_assignment(assignment)
    assert [item["domainCount"] for item in written["slices"]] == domain_counts
    assert read_topology_assignment(written) == assignment


def test_the_smaller_encoding_is_written_and_if_equal_that_with_one_slice() -> None:
    """The longer the common part of a run, the more its own slice saves."""
    smaller: set[int] = set()
    for length in range(1, 60):
        runs = [[f"{letter * length}-{i}" for i in range(3)] for letter in "ab"]
        names = [*runs[0], *runs[1]]
        values = [{"individual": {"roots": names}}]
        whole = [{"domainCount": 6, "valuesPerLevel": values, "podCounts": {"universal": 1}}]
        parted = [part for run in runs for part in write_topology_assignment(on_nodes(*run))["slices"]]
        size, parted_size = (len(json.dumps(each, separators=(",", ":"))) for each in (whole, parted))
        assert write_topology_assignment(on_nodes(*names))["slices"] == (parted if parted_size < size else whole)
        smaller.add((parted_size < size) - (parted_size > size))
    assert smaller == {-1, 0, 1}


def test_the_runs_are_those_of_the_lowest_level() -> None:
    racks = ["first-rack-with-a-very-long-name", "second-rack-with-a-very-long-name"]
    hosts = [f"{rack}-host-{i}" for rack in racks for i in range(20)]
    domains = tuple(TopologyDomainAssignment(("block", host), 1) for host in hosts)
    slices = write_topology_assignment(TopologyAssignment(("block", HOSTNAME), domains))["slices"]
    assert [item["domainCount"] for item in slices] == [20, 20]
