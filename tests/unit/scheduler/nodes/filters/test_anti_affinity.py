"""Pods that may be excluded by the required anti-affinity of other pods."""

from __future__ import annotations

from typing import Any

import pytest

from zonewise_common.k8s.labels import Requirement
from zonewise_scheduler.nodes.filters.anti_affinity import AntiAffinityIndex, AntiAffinityTerm, read_anti_affinity

Json = dict[str, Any]

WEB = AntiAffinityTerm(("lab",), (Requirement("app", "In", ("web",)),))


def pod(affinity: Json | None = None) -> Json:
    return {"metadata": {"name": "p", "namespace": "lab"}, "spec": {"affinity": affinity or {}}}


def excluding(*terms: Json) -> tuple[AntiAffinityTerm, ...]:
    required = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}
    return read_anti_affinity(pod(required))


@pytest.mark.parametrize(
    ("term", "namespace", "labels", "excluded"),
    [
        ({"labelSelector": {"matchLabels": {"app": "web"}}}, "lab", {"app": "web"}, True),
        ({"labelSelector": {"matchLabels": {"app": "web"}}}, "lab", {"app": "db"}, False),
        ({"labelSelector": {"matchLabels": {"app": "web"}}}, "other", {"app": "web"}, False),
        ({"labelSelector": {"matchLabels": {"app": "web"}}, "namespaces": ["other"]}, "other", {"app": "web"}, True),
        ({"labelSelector": {"matchLabels": {"app": "web"}}, "namespaceSelector": {}}, "other", {"app": "web"}, True),
        ({"labelSelector": {"matchLabels": {"app": "web"}}, "matchLabelKeys": ["v"]}, "lab", {}, True),
        ({"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}, "lab", {}, False),
        ({"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Bad"}]}}, "other", {}, True),
        ({"labelSelector": "damaged"}, "other", {}, True),
    ],
)
def test_pods_excluded_by_an_anti_affinity(term: Json, namespace: str, labels: dict[str, str], excluded: bool) -> None:
    """A term that cannot be evaluated excludes every pod: such pods are left to kube-scheduler."""
    assert any(entry.may_exclude(namespace, labels) for entry in excluding(term)) == excluded


def test_no_anti_affinity() -> None:
    assert read_anti_affinity(pod()) == ()


def test_a_term_counts_while_any_pod_has_it() -> None:
    index = AntiAffinityIndex()
    assert not index
    assert index.set_terms("a", (WEB,))
    assert index.set_terms("b", (WEB,))
    assert not index.set_terms("b", (WEB,))
    for name in ("a", "b"):
        assert index.may_exclude("lab", {"app": "web"})
        assert not index.may_exclude("lab", {"app": "db"})
        assert index.set_terms(name, ())
    assert not index.may_exclude("lab", {"app": "web"})
    assert not index
