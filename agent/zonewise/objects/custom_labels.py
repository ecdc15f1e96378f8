"""The labels of the worker's source "custom", by the rules in the worker's configuration (source/custom/custom.go,
GetLabels).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.objects.feature_groups import FEATURE_GROUPS
from zonewise.objects.features import node_features
from zonewise.objects.nfd_labels import PREFIX, rdma_labels

if TYPE_CHECKING:
    from zonewise.machine.model.machine import Machine
    from zonewise.nfd.types import LocalFeatures
    from zonewise.nfd.worker_config import WorkerConfig


def custom_labels(
    machine: Machine, local: LocalFeatures, worker: WorkerConfig, node_name: str
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the labels by full name, and the rules that failed.

    Rules see all raw features, published or not, and under `rule.matched` the output of earlier rules. The first two
    rules are those built into NFD.
    """
    from zonewise.nfd.custom_rules import parse_custom_rules  # imported only if there are such rules
    from zonewise.rules.evaluation import MATCHED, evaluate_rule
    from zonewise.rules.types import RuleError

    features = node_features(machine, FEATURE_GROUPS, local, worker, node_name)
    matched = dict(rdma_labels(features))
    attributes = {**features.attributes, MATCHED: matched}
    labels: dict[str, str] = {}
    problems: list[str] = []
    for rule in parse_custom_rules(worker.custom_rules):
        try:
            output = evaluate_rule(rule, features._replace(attributes=attributes))
        except RuleError as error:
            problems.append(f"sources.custom: rule {rule.name[:100]!r} failed: {error}")
            continue
        labels.update((name if "/" in name else f"{PREFIX}/{name}", value) for name, value in output.labels.items())
        matched |= {**output.labels, **output.vars}
    return labels, tuple(problems)
