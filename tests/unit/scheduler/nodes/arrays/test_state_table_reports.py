"""States of arbitrary reports as arrays: no amount and no number of zones of one node affects other nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from support.agent_objects import set_attribute
from support.fit_nodes import GPU, NIC, admitted_in_sequence, container, pod
from support.nrt_objects import nrt
from zonewise_common.nrt import names
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.report.interning import KindInterner
from zonewise_scheduler.admission.report.node_report import read_nrt
from zonewise_scheduler.nodes.arrays.state_table import NodeStateTable

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape

SIZES = st.sampled_from(["9E", "8Ei", "4E", "256Pi", "255Pi", "128Pi", "16Gi", "4", "0"])
SHAPES = (
    pod(container(gib=1)),
    pod(container(devices={GPU: 1, NIC: 1}), qos="Burstable"),
    pod(container("a", gib=5 << 30, devices={GPU: 1 << 62}), container("b", gib=5 << 30, devices={GPU: 1 << 62})),
)


@st.composite
def states(draw: st.DrawFn) -> NodeState | None:
    """Draw the state read from a report of large amounts and of few or very many zones."""
    count = draw(st.sampled_from([1, 2, 3, 4, 63, 64, 65, 128]))
    sizes = {name: draw(SIZES) for name in ("memory", GPU, NIC)}
    resources = [
        {"name": name, "capacity": size, "allocatable": size, "available": size} for name, size in sizes.items()
    ]
    zones: list[dict[str, Any]] = [
        {"name": f"node-{number}", "type": "Node", "resources": resources} for number in range(count)
    ]
    report = nrt(zones, draw(st.sampled_from(["none", "best-effort", "restricted", "single-numa-node"])))
    report["metadata"] = {"name": "n"}
    size = draw(SIZES)
    amounts = f"{size}/{size}/{size}"
    for name, value in {
        names.USAGE: "known",
        names.MEMORY_MANAGER_POLICY: "Static",
        names.MEMORY_ASSIGNED: str(count - 1),
        names.EXCLUDED: f"memory@0={size},{NIC}@={size}",
        names.UNZONED_DEVICES: f"{NIC}={amounts}",
        names.SHARED_DEVICES: f"{GPU}@0+1={amounts}",
        names.ABSENT_ZONE_DEVICES: f"{NIC}@-1={amounts}",
    }.items():
        if draw(st.booleans()):
            set_attribute(report, name, value)
    return read_nrt(report, KindInterner()).state


@given(st.lists(states(), min_size=1, max_size=3), st.sampled_from(SHAPES))
def test_any_report_has_the_verdict_of_its_kubelet(cluster: list[NodeState | None], shape: PodShape) -> None:
    """A node without a state rejects the pod; other nodes admit it as often as their kubelets."""
    table = NodeStateTable()
    table.set_rows(dict(enumerate(cluster)))
    assert table.admitted(shape).tolist() == [state is not None and admit(state, shape).admitted for state in cluster]
    counts = [0 if state is None else admitted_in_sequence(state, shape, 2) for state in cluster]
    assert table.pod_counts(shape, 2).tolist() == counts
