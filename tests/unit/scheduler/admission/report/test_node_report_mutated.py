"""Hundreds of damaged reports, thousands in `make test-long`: none raises an error, alone or in the table of nodes."""

from __future__ import annotations

import pytest

from support.mutated_reports import mutated, pods
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.explain.rejection import explain_rejection
from zonewise_scheduler.admission.report.interning import KindInterner
from zonewise_scheduler.admission.report.node_report import read_nrt
from zonewise_scheduler.nodes.arrays.state_table import NodeStateTable

MANY = 20_000
FEW = 800


def check(seeds: range) -> None:
    """Read the reports and judge pods on each, alone and in arrays; rejections must have messages and explanations."""
    interner, table, shapes = KindInterner(), NodeStateTable(), pods()
    for seed in seeds:
        report = read_nrt(mutated(seed), interner)
        assert report.state is not None or report.problems, seed
        if report.state is None:
            continue
        for shape in shapes:
            verdict = admit(report.state, shape)
            assert verdict.admitted == (verdict.after is not None), seed
            assert verdict.admitted or verdict.message, seed
            assert bool(explain_rejection(report.state, shape, verdict)) is not verdict.admitted, seed
        if seed % 10 == 0:
            table.set(0, report.state)
            admitted = [bool(table.admitted(shape)[0]) for shape in shapes]
            assert admitted == [admit(report.state, shape).admitted for shape in shapes], seed


@pytest.mark.parametrize("part", range(4))
def test_mutated_reports_are_read_and_judged(part: int) -> None:
    check(range(part * FEW // 4, (part + 1) * FEW // 4))


@pytest.mark.long
@pytest.mark.parametrize("part", range(20))
def test_many_mutated_reports_are_read_and_judged(part: int) -> None:
    check(range(FEW + part * MANY // 20, FEW + (part + 1) * MANY // 20))
