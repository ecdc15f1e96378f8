"""Nodes from their description in a fleet file."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.k8s.taints import Taint
from zonewise_scheduler.quota.api.amount import UNLIMITED
from zonewise_scheduler.quota.topology.types import HOSTNAME
from zonewise_scheduler.simulator.inputs.fleet_file import (
    KIND_LABEL,
    LEVEL_LABEL_PREFIX,
    is_fleet,
    parse_short_fleet,
    read_fleet,
)
from zonewise_scheduler.simulator.inputs.node_fleet import build_queue, build_queues
from zonewise_scheduler.simulator.inputs.source_files import InputError

Json = dict[str, Any]

CPU_KIND: Json = {"name": "cpu", "cpu": 64, "memory": "256Gi"}


def fleet(*sizes: int, kinds: list[Json] | None = None, **fields: object) -> Json:
    names = ("block", "rack", "node")[-len(sizes) :]
    levels = [{"name": name, "count": size} for name, size in zip(names, sizes, strict=True)]
    return {"levels": levels, "kinds": kinds or [CPU_KIND], **fields}


def test_nodes_have_names_and_labels_by_level() -> None:
    result = read_fleet(fleet(2, 3, 11, name="f"), "f.yaml")
    assert is_fleet(fleet(1))
    assert result.topologies == {"f": (LEVEL_LABEL_PREFIX + "block", LEVEL_LABEL_PREFIX + "rack", HOSTNAME)}
    last = result.nodes.infos[-1]
    assert last is not None
    assert last.name == "block-1-rack-2-node-10"
    assert [last.label(key) for key in (*result.topologies["f"], KIND_LABEL)] == [
        "block-1", "block-1-rack-2", "block-1-rack-2-node-10", "cpu"
    ]  # fmt: skip
    assert result.problems == ()


def test_names_are_in_the_order_of_numbers() -> None:
    result = read_fleet(fleet(12, 101), "f.yaml")
    names = [result.nodes.name(row) for row in range(len(result.nodes))]
    assert names == sorted(names)
    assert len(set(names)) == 12 * 101


def test_a_level_may_have_a_label_of_its_own() -> None:
    given = fleet(2, 3)
    given["levels"][0]["label"] = "example.com/rack"
    result = read_fleet(given, "f.yaml")
    assert result.topologies == {"fleet": ("example.com/rack", HOSTNAME)}


def test_a_kind_has_a_flavor_and_the_resources_of_its_nodes() -> None:
    gpu = {
        "name": "gpu", "domains": 1, "cpu": "191.5", "memory": "2Ti", "storage": "1T", "pods": 250,
        "resources": {"nvidia.com/gpu": 8}, "labels": {"a": "b"}, "taints": [{"key": "t", "effect": "NoSchedule"}],
    }  # fmt: skip
    result = read_fleet(fleet(4, 5, 10, kinds=[gpu, CPU_KIND]), "f.yaml")
    assert [(entry.name, entry.node_labels, entry.topology_name) for entry in result.flavors] == [
        ("gpu", {KIND_LABEL: "gpu"}, "fleet"), ("cpu", {KIND_LABEL: "cpu"}, "fleet"),
    ]  # fmt: skip
    assert result.flavors[0].node_taints == (Taint("t", "", "NoSchedule"),)
    assert result.capacity["gpu"] == {
        "cpu": 50 * 191_500, "memory": 50 << 41, "ephemeral-storage": 50 * 10**12, "nvidia.com/gpu": 400
    }  # fmt: skip
    assert result.capacity["cpu"] == {"cpu": 150 * 64_000, "memory": 150 << 38, "ephemeral-storage": UNLIMITED}
    first = result.nodes.infos[0]
    assert first is not None
    assert (first.allocatable.pods, first.label("a"), first.taints) == (250, "b", result.flavors[0].node_taints)
    assert result.nodes.available("nvidia.com/gpu").tolist() == [8] * 50 + [0] * 150


def test_undeclared_memory_is_not_counted() -> None:
    """Unknown memory is not zero: such nodes hold any amount of it."""
    result = read_fleet(fleet(2, kinds=[{"name": "x", "cpu": 1}]), "f.yaml")
    assert result.capacity["x"]["memory"] == UNLIMITED
    assert result.nodes.available("memory").min() > 1 << 60


@given(st.lists(st.integers(1, 7), min_size=1, max_size=3), st.lists(st.integers(0, 20), min_size=1, max_size=4))
def test_the_nodes_are_the_product_of_the_counts_however_they_are_shared(sizes: list[int], parts: list[int]) -> None:
    """Each share is met to the nearest node, and the queue over all nodes has their whole capacity."""
    whole = sum(parts) + 1
    kinds = [{"name": f"k{index}", "cpu": 2, "share": part / whole} for index, part in enumerate(parts)]
    result = read_fleet(fleet(*sizes, kinds=[*kinds, {"name": "rest", "cpu": 3}]), "f.yaml")
    nodes = 1
    for size in sizes:
        nodes *= size
    assert len(result.nodes) == nodes
    assert int(result.nodes.available("cpu").sum()) == result.total_capacity["cpu"]
    for index, part in enumerate(parts):
        assert abs(result.capacity[f"k{index}"].get("cpu", 0) / 2000 - part / whole * nodes) <= 1
    quotas = [dict(entry.quotas)["cpu"].nominal for entry in build_queue(result).resource_groups[0].flavors]
    assert sum(quotas) == result.total_capacity["cpu"]


def test_queues_have_equal_shares_and_lend_to_each_other() -> None:
    result = read_fleet(fleet(9), "f.yaml")
    queues = build_queues(result, ["a", "b", "a"]).queues
    assert [(entry.name, entry.cohort_name) for entry in queues] == [("a", "all"), ("b", "all")]
    assert dict(queues[0].resource_groups[0].flavors[0].quotas)["cpu"].nominal == 9 * 64_000 // 2
    assert [(entry.name, entry.cohort_name) for entry in build_queues(result, ()).queues] == [("all", "")]


def test_zones_divide_the_resources_of_a_node() -> None:
    kinds = [
        {"name": "a", "share": 0.5, "cpu": 5, "resources": {"x.com/gpu": 4}, "zones": 2, "policy": "single-numa-node"},
        {"name": "b", "cpu": 4},
    ]
    result = read_fleet(fleet(4, kinds=kinds), "f.yaml")
    assert sorted(result.states) == ["node-0", "node-1"]
    state = result.states["node-0"]
    assert state is result.states["node-1"]
    assert (state.kind.zones, state.kind.policies.topology, state.kind.policies.cpu) == (
        (0, 1), "single-numa-node", "static"
    )  # fmt: skip
    assert [bits.bit_count() for _, bits in state.kind.cpus.zones] == [3, 2]
    assert state.free_cpus == state.kind.cpus.cpus
    assert [(entry.resource, entry.zones, entry.healthy) for entry in state.kind.devices] == [
        ("x.com/gpu", 1, 2), ("x.com/gpu", 2, 2),
    ]  # fmt: skip
    assert state.device_free == (2, 2)


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        ({"levels": []}, "levels: is missing"),
        ({"kinds": []}, "kinds: is missing"),
        ({"levels": "x"}, "levels: not a list: 'x'"),
        ({"levels": [{"name": "node", "count": 0}]}, r"levels\[0\].count: not between 1 and 1000000: 0"),
        ({"levels": [{"name": "node"}]}, r"levels\[0\].count: is missing"),
        ({"levels": [{"name": "", "count": 1}]}, r"levels\[0\].name: not a name: ''"),
        ({"levels": [{"name": "a", "count": 1001}, {"name": "n", "count": 1000}]}, "more than 1000000 nodes: 1001000"),
        (
            {"levels": [{"name": "a", "count": 2}, {"name": "a", "count": 2, "label": LEVEL_LABEL_PREFIX + "a"}]},
            "occurs twice",
        ),
        ({"levels": [{"name": "a", "count": 2, "label": "b"}]}, "innermost level is that of kubernetes.io/hostname"),
        ({"kinds": [CPU_KIND, CPU_KIND]}, "kinds: 'cpu' occurs twice"),
        ({"kinds": [CPU_KIND, {**CPU_KIND, "name": "b"}]}, "only one kind can take the remaining nodes"),
        ({"kinds": [{**CPU_KIND, "share": 0.9}]}, "they cover 0.9 of the nodes instead of all of them"),
        ({"kinds": [{**CPU_KIND, "domains": 5}]}, "they cover 5 of the nodes instead of all of them"),
        ({"kinds": [{"name": "x"}]}, r"kinds\[0\].cpu: is missing"),
        ({"kinds": [{"name": "x", "cpu": "many"}]}, r"kinds\[0\].cpu: not a quantity: 'many'"),
        ({"kinds": [{**CPU_KIND, "memory": "1GiB"}]}, r"kinds\[0\].memory: not a quantity: '1GiB'"),
        ({"kinds": [{**CPU_KIND, "resources": {"gpu": 1}}]}, "gpu is set with a field of its own"),
        ({"kinds": [{**CPU_KIND, "zones": 9}]}, r"kinds\[0\].zones: not between 0 and 8: 9"),
        ({"kinds": [{**CPU_KIND, "policy": "best"}]}, r"kinds\[0\].policy: not one of .*'best'"),
        ({"kinds": [{**CPU_KIND, "taints": [{"key": 1}]}]}, r"kinds\[0\].taints.key: not a string: 1"),
        ({"kinds": [{**CPU_KIND, "labels": {"a": 1}}]}, r"kinds\[0\].labels.a: not a string: 1"),
    ],
)
def test_an_error_names_file_field_and_value(change: Json, reported: str) -> None:
    with pytest.raises(InputError, match=rf"^f\.yaml: .*{reported}"):
        read_fleet(fleet(1) | change, "f.yaml")


def test_a_kind_of_node_is_no_number_of_cpus() -> None:
    """`zonewise up --nodes 8xhgx-h100` has kinds of nodes, and a user may try them here."""
    with pytest.raises(InputError, match=r"^--nodes: .* in 8xhgx-h100: use NUMBERxCPUS or .*, or a file for other"):
        parse_short_fleet("8xhgx-h100")


def test_unknown_fields_are_reported() -> None:
    result = read_fleet(fleet(1, color="red"), "f.yaml")
    assert result.problems == ("f.yaml: color: unknown field",)


@pytest.mark.parametrize(
    ("text", "nodes", "cpus", "memory"),
    [("100", 100, 1000, None), ("3x64", 3, 64_000, None), ("2x1500mx4Gi", 2, 1500, 4 << 30), ("1x0.5", 1, 500, None)],
)
def test_a_short_description_of_nodes(text: str, nodes: int, cpus: int, memory: int | None) -> None:
    result = parse_short_fleet(text)
    assert result is not None
    assert result.nodes.available("cpu").tolist() == [cpus] * nodes
    assert result.total_capacity["memory"] == (UNLIMITED if memory is None else memory * nodes)
    assert result.topologies == {"nodes": (HOSTNAME,)}


@pytest.mark.parametrize("text", ["", "x", "ten", "fleet.yaml", "-1", "1.5", "8x", "8x1x", "1x2x3x4", "99999999"])
def test_an_invalid_number_of_nodes_is_not_a_fleet(text: str) -> None:
    assert parse_short_fleet(text) is None


@pytest.mark.parametrize("text", ["0", "0x1", "1000001", "5x0", "5x1x0", "5xmany", "5x1xmuch", "5x-1"])
def test_impossible_nodes(text: str) -> None:
    with pytest.raises(InputError, match=rf"^--nodes: .*{text}"):
        parse_short_fleet(text)
