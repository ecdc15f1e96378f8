"""The admission checks of a queue: their controllers, and whether these controllers serve them."""

from __future__ import annotations

from typing import Any

import pytest

from zonewise_scheduler.quota.api.admission_check_rules import with_admission_checks
from zonewise_scheduler.quota.api.queue_reader import read_admission_check
from zonewise_scheduler.quota.api.queue_types import AdmissionCheck, AdmissionCheckStrategyRule, ClusterQueue
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot

Json = dict[str, Any]

ACTIVE: Json = {"conditions": [{"type": "Active", "status": "True"}]}


@pytest.mark.parametrize(
    ("status", "is_active"),
    [(ACTIVE, True), ({}, False), ({"conditions": [{"type": "Active", "status": "False"}]}, False)],
)
def test_the_active_condition_makes_a_check_active(status: Json, is_active: bool) -> None:
    parameters = {"apiGroup": "example.com", "kind": "Licence", "name": "l"}
    spec = {"controllerName": "example.com/licences", "retryDelayMinutes": 1, "parameters": parameters}
    obj = {"metadata": {"name": "licence"}, "spec": spec, "status": status}
    assert read_admission_check(obj) == (AdmissionCheck("licence", "example.com/licences", is_active), ())


def test_a_queue_is_active_while_each_of_its_checks_is_active() -> None:
    rules = tuple(AdmissionCheckStrategyRule(name) for name in ("b", "a", "off"))
    queue, off = ClusterQueue("q", admission_checks=rules), AdmissionCheck("off", "c", is_active=False)
    on = {name: AdmissionCheck(name, "c", is_active=True) for name in ("a", "b", "off")}
    served = with_admission_checks(queue, on)
    assert [rule.controller_name for rule in served.admission_checks] == ["c", "c", "c"]
    assert not Snapshot([served]).inactive
    assert Snapshot([with_admission_checks(queue, {"off": off})]).inactive == {
        "q": "references missing AdmissionChecks: a, b"
    }
    assert Snapshot([with_admission_checks(queue, {**on, "off": off})]).inactive == {
        "q": "references inactive AdmissionChecks: off"
    }
    assert not Snapshot([queue]).inactive
