"""The names, GUIDs and labels of nodes, as the API server returns them."""

from __future__ import annotations

from typing import Any

import pytest

from zonewise_scheduler.client.fabric.fabric_nodes import read_guids, read_labelled_node


def entry(manager: str, operation: str, *labels: str) -> dict[str, Any]:
    """Return an entry of managedFields."""
    fields: dict[str, Any] = {"f:metadata": {"f:labels": {".": {}, **{f"f:{label}": {} for label in labels}}}}
    return {"manager": manager, "operation": operation, "fieldsV1": fields}


NODE: dict[str, Any] = {
    "metadata": {
        "name": "ip-10-0-0-1",
        "uid": "u",
        "labels": {"kubernetes.io/hostname": "N1", "t0": "x"},
        "managedFields": [
            entry("kubectl", "Apply", "pool"),
            entry("zonewise-fabric", "Update", "u"),
            entry("zonewise-fabric", "Apply", "t0"),
        ],
    },
    "status": {
        "addresses": [
            {"type": "InternalIP", "address": "10.0.0.1"},
            {"type": "Hostname", "address": "n1"},
            {"type": "InternalDNS", "address": "N1.example.com"},
        ]
    },
}
OURS: dict[str, Any] = {
    "manager": "zonewise-fabric",
    "operation": "Apply",
    "fieldsV1": {"f:metadata": {"f:labels": []}},
}
DAMAGED: list[dict[str, Any]] = [
    {"metadata": {"name": "n"}},
    {"metadata": {"name": "n", "labels": 3, "managedFields": [7, {"manager": "zonewise-fabric", "operation": 1}]}},
    {"metadata": {"name": "n"}, "status": {"addresses": ["x", {"type": "Hostname"}, {"type": 1, "address": 2}]}},
    {"metadata": {"name": "n", "managedFields": [OURS]}},
]


def test_a_node() -> None:
    """Aliases are names, not IP addresses. Only labels of our applies are ours."""
    read = read_labelled_node(NODE)
    assert (read.names.name, read.uid) == ("ip-10-0-0-1", "u")
    assert read.names.aliases == {"n1", "n1.example.com"}
    assert read.owned == {"t0"}
    assert read.labels["t0"] == "x"


@pytest.mark.parametrize("node", DAMAGED)
def test_damaged_fields_count_as_absent(node: dict[str, Any]) -> None:
    """No node keeps the others from being read."""
    read = read_labelled_node(node)
    assert (read.names.name, read.names.aliases, read.owned) == ("n", frozenset(), frozenset())


def test_guids_of_a_report() -> None:
    """They are attributes of the node."""
    report = {
        "metadata": {"name": "n"},
        "attributes": [{"name": "zonewise.dev/node-guids", "value": "0000000000000001,e09d7303007a4bd8"}],
    }
    assert read_guids(report) == ("n", {"0000000000000001", "e09d7303007a4bd8"})
    assert read_guids({"metadata": {"name": "n"}}) == ("n", frozenset())
    assert read_guids({"metadata": {"name": "n"}, "attributes": [3]}) == ("n", frozenset())
