"""Every problem of a report is of one of a few kinds."""

from __future__ import annotations

import pytest

from support.mutated_reports import mutated
from zonewise_scheduler.admission.report.interning import KindInterner
from zonewise_scheduler.admission.report.node_report import read_nrt
from zonewise_scheduler.admission.report.problem_kinds import KINDS, OTHER, problem_kind


@pytest.mark.parametrize(
    ("problem", "kind"),
    [
        ("object: KeyError: 'x'", "object"),
        ("metadata.name: not a name: None", "metadata"),
        ("attributes[0]: not a name and its value: {'name': 5}", "attributes"),
        ("zones: no zone of type Node could be read", "zones"),
        ("zones[0]: not an object: 5", "zones"),
        ("zones[0].name: 'node-0' exists already: the first one is used", "name"),
        ("zones[0].resources[1] (memory): not a quantity: 'x: y'", "resources"),
        ("zones[0].resources[1].name: not a name: None", "resources"),
        ("zones[0].costs[0]: not a zone and its distance: {}", "costs"),
        ("zone 0 cpu: more than 8192: 100000", "resources"),
        ("node-0 zonewise.dev/cpus: not a CPU range: '9-1'", "cpus"),
        ("zone 3 zonewise.dev/memory-group: no such zones: (5,)", "memory-group"),
        ("zonewise.dev/shared-devices (r/d@x): not zones: 'x'", "shared-devices"),
        ("topologyManagerScope: none of container, pod: 'x'", "topologyManagerScope"),
        ("something else", OTHER),
    ],
)
def test_kinds(problem: str, kind: str) -> None:
    assert problem_kind(problem) == kind
    assert kind in KINDS


def test_the_kinds_of_damage_are_few() -> None:
    """No value of a report becomes a kind, and no problem of these reports is of kind OTHER."""
    interner = KindInterner()
    problems = [problem for seed in range(200) for problem in read_nrt(mutated(seed), interner).problems]
    assert {problem_kind(problem) for problem in problems} <= KINDS - {OTHER}
