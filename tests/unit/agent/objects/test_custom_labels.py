"""Labels of the worker's custom rules: from all raw features, in order, between those of the hardware and of files."""

from __future__ import annotations

import yaml

from support.machines import gpu_server
from zonewise.nfd.types import LocalFeatures, LocalLabel
from zonewise.nfd.worker_config import LABEL_SOURCES, WorkerConfig
from zonewise.objects.features import node_features
from zonewise.objects.labels import LabelConfig, Labels, build_labels

RULES = """
- name: template
  labelsTemplate: "{{ range .pci.device }}gpu-{{ .class }}=yes\\n{{ end }}"
  matchFeatures:
    - {feature: pci.device, matchExpressions: {vendor: [10de]}}
- name: earlier
  labels: {example.com/rdma: "true"}
  vars: {count: "8"}
  matchFeatures:
    - {feature: rule.matched, matchExpressions: [rdma.capable]}
- name: later
  labels: {rack: custom, again: "true"}
  matchFeatures:
    - {feature: rule.matched, matchExpressions: {count: {op: Gt, value: 7}, example.com/rdma: true}}
    - {feature: system.name, matchExpressions: {nodename: node-7}}
- name: no match
  labels: {never: "true"}
  matchFeatures:
    - {feature: pci.device, matchExpressions: {vendor: ffff}}
- name: broken
  labels: {never: "true"}
  matchFeatures:
    - {feature: pci.device, matchExpressions: {vendor: {op: Like}}}
"""
WORKER = WorkerConfig(custom_rules=tuple(yaml.safe_load(RULES)))
LOCAL = LocalFeatures({"rack": "file"}, {"rack": LocalLabel("file", "/f:1")})


def labels(worker: WorkerConfig, local: LocalFeatures | None = None) -> Labels:
    machine = gpu_server()
    features = node_features(machine, (), local or LocalFeatures(), worker)
    return build_labels(machine, features, local or LocalFeatures(), LabelConfig(worker=worker, node_name="node-7"))


def test_labels_of_custom_rules() -> None:
    """Rules may use templates and results of earlier rules, even of NFD's built-in rule; a failing rule fails alone."""
    plain, result = labels(WorkerConfig()), labels(WORKER)
    added = {name: value for name, value in result.values.items() if name not in plain.values}
    prefix = "feature.node.kubernetes.io/"
    assert added == {
        f"{prefix}gpu-0302": "yes",
        "example.com/rdma": "true",
        f"{prefix}rack": "custom",
        f"{prefix}again": "true",
    }
    assert len(result.problems) == 1
    assert result.problems[0].startswith("sources.custom: rule 'broken' failed: ")


def test_labels_of_files_override() -> None:
    assert labels(WORKER, LOCAL).values["feature.node.kubernetes.io/rack"] == "file"


def test_a_disabled_source() -> None:
    """Neither custom nor built-in rules apply."""
    result = labels(WORKER._replace(label_sources=LABEL_SOURCES - {"custom"}))
    plain = labels(WorkerConfig())
    assert plain.values.items() - result.values.items() == {("feature.node.kubernetes.io/rdma.capable", "true")}
    assert not result.values.items() - plain.values.items()
