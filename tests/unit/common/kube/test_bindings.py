"""Bindings of pods."""

from __future__ import annotations

from zonewise_common.kube.bindings import binding


def test_a_binding_names_pod_uid_and_node() -> None:
    made = binding("p", "u-1", "node-1", {"a": "b"})
    assert made["metadata"] == {"name": "p", "uid": "u-1", "annotations": {"a": "b"}}
    assert made["target"]["name"] == "node-1"
    assert binding("p", "u-1", "node-1")["metadata"]["annotations"] == {}
