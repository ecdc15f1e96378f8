"""PodDisruptionBudgets: decoding them, matching them with pods, and counting evictions."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from support.clock import Clock
from zonewise_common.k8s.fields import FieldError
from zonewise_scheduler.extender.objects.disruption_budgets import DisruptionBudgets, decode_disruption_budget


def raw(spec: dict[str, Any], allowed: int = 1) -> msgspec.Raw:
    status = {"disruptionsAllowed": allowed, "disruptedPods": {"going": "2026-01-01T00:00:00Z"}}
    budget = {"metadata": {"name": "b", "namespace": "ns"}, "spec": spec, "status": status}
    return msgspec.Raw(json.dumps(budget).encode())


APP = {"selector": {"matchLabels": {"app": "x"}}}
LABELS = (("app", "x"), ("z", "1"))


def test_selection() -> None:
    """A budget selects pods of its namespace by labels. A pod whose eviction is already counted needs no budget."""
    budgets = DisruptionBudgets(Clock())
    budgets.update(None, decode_disruption_budget(raw(APP)))
    assert budgets.of_pod("ns", "p", LABELS) == ("ns/b",)
    assert budgets.of_pod("other", "p", LABELS) == ()
    assert budgets.of_pod("ns", "p", (("app", "y"),)) == ()
    assert budgets.of_pod("ns", "going", LABELS) == ()


def test_selectors() -> None:
    """A budget without a selector selects no pods; an empty selector selects all. An invalid selector is an error."""
    assert decode_disruption_budget(raw({})).selector is None
    assert decode_disruption_budget(raw({"selector": {}})).selector == ()
    selector = {"matchExpressions": [{"key": "app", "operator": "Among", "values": ["x"]}]}
    with pytest.raises(FieldError):
        decode_disruption_budget(raw({"selector": selector}))


def test_counts() -> None:
    """The extender's own evictions count until the controller lowers `disruptionsAllowed`, or for half a minute."""
    clock = Clock()
    budgets = DisruptionBudgets(clock)
    three, two = decode_disruption_budget(raw(APP, 3)), decode_disruption_budget(raw(APP, 2))
    budgets.update(None, three)
    budgets.record_eviction(["ns/b"])
    assert budgets.allowed() == {"ns/b": 2}
    budgets.update(three, two)
    assert budgets.allowed() == {"ns/b": 2}
    budgets.record_eviction(["ns/b"])
    assert budgets.allowed() == {"ns/b": 1}
    clock.advance(31)
    assert budgets.allowed() == {"ns/b": 2}
    budgets.update(two, None)
    assert budgets.allowed() == {}
