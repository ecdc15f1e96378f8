"""The text that `zonewise up` prints once it is ready."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any, cast

import pytest

from zonewise_sandbox.up.node_descriptions import parse_nodes
from zonewise_sandbox.up.node_kinds import NODE_KINDS
from zonewise_sandbox.up.summary import cluster_summary

CLUSTER = SimpleNamespace(
    clock=SimpleNamespace(speed=1.0), url="http://127.0.0.1:8001", status_url="http://127.0.0.1:1"
)


@pytest.mark.parametrize("nodes", [*NODE_KINDS, "1x2x2Gi"])
def test_the_suggested_job_fits_each_kind_of_node(nodes: str) -> None:
    described = parse_nodes(nodes)
    text = cluster_summary(described, cast("Any", CLUSTER), "zonewise.kubeconfig", 1.0, "", "zonewise")
    [line] = [line for line in text.splitlines() if " submit " in line]
    requests = dict(re.findall(r"(-c|--mem|--gpus\S*) (\d+)", line))
    capacity = described.nodes[0].machine.capacity
    assert requests.keys() == {"-c", "--mem"}
    assert int(requests["-c"]) < capacity["cpu"]  # the kubelet reserves one
    assert int(requests["--mem"]) << 30 <= capacity["memory"]
    assert max(map(len, text.splitlines())) <= 80
