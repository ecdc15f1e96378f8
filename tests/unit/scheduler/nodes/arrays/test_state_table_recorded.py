"""Arrays of all nodes, compared with recorded verdicts of real kubelets."""

from __future__ import annotations

import pytest

from support.fit_cases import pod_of_case, state_of_case
from support.kubelet_cases import ABSENT, cases
from zonewise_scheduler.nodes.arrays.state_table import NodeStateTable

pytestmark = pytest.mark.skipif(not cases(), reason=ABSENT)


def test_recorded_admissions() -> None:
    """fits() is the kubelet's verdict or undecided; admitted() is always the kubelet's verdict."""
    wrong: list[str] = []
    for case in cases():
        table = NodeStateTable()
        table.set(0, state_of_case(case))
        pod = pod_of_case(case)
        admitted = bool(case["expect"]["admit"])
        if table.fits(pod)[0] not in {-1, admitted} or table.admitted(pod)[0] != admitted:
            wrong.append(str(case["id"]))
    assert wrong == []


def test_recorded_nodes_in_one_table() -> None:
    """Nodes of many layouts get the same verdicts in one table as alone."""
    some = cases()[::40]
    table = NodeStateTable()
    table.set_rows({row: state_of_case(case) for row, case in enumerate(some)})
    for case in some:
        pod = pod_of_case(case)
        alone: list[bool] = []
        for other_case in some:
            single = NodeStateTable()
            single.set(0, state_of_case(other_case))
            alone.append(bool(single.admitted(pod)[0]))
        assert table.admitted(pod).tolist() == alone
