"""Mispredictions as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.ledger_kubelets import SINGLE, node_kind, node_report, pod_shape
from zonewise_scheduler.admission.node import idle_node
from zonewise_scheduler.admission.pod import PodLevelResources, PodShape
from zonewise_scheduler.nodes.assumed.ledger import Ledger
from zonewise_scheduler.nodes.assumed.replay_case import CaseError, case_json, read_case, replay
from zonewise_scheduler.nodes.assumed.types import Misprediction, PendingPod


def mispredict(zones: int, gib: int, assumed_before: list[PodShape], shape: PodShape) -> Misprediction | None:
    """Return the misprediction of a ledger whose kubelet rejects an assumed pod; None if the ledger rejects the pod."""
    ledger = Ledger()
    ledger.update_report(node_report("n1", idle_node(node_kind(SINGLE, zones=zones, cpus=32, gib=gib)), [], 1), 0.0)
    for index, assumed_shape in enumerate(assumed_before):
        ledger.assume(PendingPod(f"uid-{index}", "jobs", f"p{index}", assumed_shape), "n1", 1.0)
    if not ledger.assume(PendingPod("uid", "jobs", "p", shape), "n1", 1.5).admitted:
        return None
    return ledger.reject_pod(
        "uid", "TopologyAffinityError", "Resources cannot be allocated with Topology locality", 2.0
    )


def shapes() -> st.SearchStrategy[PodShape]:
    counts = st.tuples(st.integers(0, 9), st.integers(0, 2))
    return st.lists(counts, min_size=1, max_size=2).map(lambda pairs: pod_shape(*pairs))


@given(st.integers(1, 4), st.sampled_from([0, 64]), st.lists(shapes(), max_size=3), shapes())
def test_round_trip(zones: int, gib: int, assumed_before: list[PodShape], shape: PodShape) -> None:
    """A case that is read back is equal, and replays to the same verdict."""
    misprediction = mispredict(zones, gib, assumed_before, shape)
    if misprediction is None:
        return
    read = read_case(case_json(misprediction))
    assert read == misprediction
    assert replay(read) == misprediction.predicted


def case_object() -> dict[str, Any]:
    misprediction = mispredict(4, 0, [], pod_shape((1, 0)))
    assert misprediction is not None
    return json.loads(case_json(misprediction))


def test_format() -> None:
    """Fields are named. Wide sets of CPUs are hexadecimal, because other JSON readers would round them."""
    case = case_object()
    assert case["state"]["free_cpus"] == hex((1 << 128) - 1)
    assert case["foretold"]["assignments"][0]["cpus"] == 1
    assert case["shape"]["containers"][0]["memory"] == [["memory", 1 << 30]]
    assert case["reason"] == "TopologyAffinityError"


def test_optional_parts() -> None:
    misprediction = mispredict(1, 0, [], pod_shape((1, 0)))
    assert misprediction is not None
    for level in (PodLevelResources(), PodLevelResources(2000, (("memory", 1),))):
        leveled = misprediction._replace(shape=misprediction.shape._replace(pod_level=level))
        assert read_case(case_json(leveled)) == leveled


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("node",), 7, "case.node is not as it is written: '7'"),
        (("state", "free_cpus"), "many", "case.state.free_cpus is not an integer: 'many'"),
        (("state", "free_cpus"), True, "case.state.free_cpus is not as it is written: 'True'"),
        (("shape", "qos"), "Best", "case.shape.qos is not as it is written: 'Best'"),
        (("shape", "containers"), {}, "case.shape.containers is not as it is written: '{}'"),
        (("state", "kind", "zones", 0), "x", "case.state.kind.zones[0] is not an integer: 'x'"),
        (
            ("state", "kind", "policies", "release"),
            [1],
            "case.state.kind.policies.release is not as it is written: '[1]'",
        ),
        (("state", "kind"), None, "case.state.kind is not as it is written: 'None'"),
    ],
)
def test_damaged_fields_are_named(path: tuple[str | int, ...], value: Any, message: str | None) -> None:
    case = case_object()
    inner: Any = case
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    with pytest.raises(CaseError) as raised:
        read_case(json.dumps(case))
    assert str(raised.value) == (message or f"case.{'.'.join(map(str, path))} is not as it is written: '{value}'")


def test_missing_fields_are_named() -> None:
    case = case_object()
    del case["foretold"]["reason"]
    with pytest.raises(CaseError, match=r"^case\.foretold\.reason is missing$"):
        read_case(json.dumps(case))
    with pytest.raises(CaseError, match=r"^not JSON: "):
        read_case("{")
