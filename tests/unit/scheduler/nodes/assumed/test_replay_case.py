"""Misses as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.ledger_kubelets import SINGLE, kind_of, report_of, shape_of
from zonewise_scheduler.admission.node import idle_node
from zonewise_scheduler.admission.pod import PodLevelResources, PodShape
from zonewise_scheduler.nodes.assumed.ledger import Ledger
from zonewise_scheduler.nodes.assumed.replay_case import CaseError, case_json, read_case, replay
from zonewise_scheduler.nodes.assumed.types import Misprediction, PendingPod


def miss_of(zones: int, gib: int, ahead: list[PodShape], shape: PodShape) -> Misprediction | None:
    """What a ledger makes of a kubelet that refuses what it has promised."""
    ledger = Ledger()
    ledger.update_report(report_of("n1", idle_node(kind_of(SINGLE, zones=zones, cpus=32, gib=gib)), [], 1), 0.0)
    for place, each in enumerate(ahead):
        ledger.assume(PendingPod(f"uid-{place}", "jobs", f"p{place}", each), "n1", 1.0)
    if not ledger.assume(PendingPod("uid", "jobs", "p", shape), "n1", 1.5).admitted:
        return None
    return ledger.reject_pod(
        "uid", "TopologyAffinityError", "Resources cannot be allocated with Topology locality", 2.0
    )


def shapes() -> st.SearchStrategy[PodShape]:
    counts = st.tuples(st.integers(0, 9), st.integers(0, 2))
    return st.lists(counts, min_size=1, max_size=2).map(lambda each: shape_of(*each))


@given(st.integers(1, 4), st.sampled_from([0, 64]), st.lists(shapes(), max_size=3), shapes())
def test_a_case_is_what_it_was_written_from(zones: int, gib: int, ahead: list[PodShape], shape: PodShape) -> None:
    """Written and read it is equal, and replayed it gives the verdict that was given."""
    miss = miss_of(zones, gib, ahead, shape)
    if miss is None:
        return
    read = read_case(case_json(miss))
    assert read == miss
    assert replay(read) == miss.foretold


def written() -> dict[str, Any]:
    miss = miss_of(4, 0, [], shape_of((1, 0)))
    assert miss is not None
    return json.loads(case_json(miss))


def test_what_is_written() -> None:
    """Fields have their names, and wide sets of CPUs are hexadecimal, since other readers of JSON round them."""
    case = written()
    assert case["state"]["free_cpus"] == hex((1 << 128) - 1)
    assert case["foretold"]["assignments"][0]["cpus"] == 1
    assert case["shape"]["containers"][0]["memory"] == [["memory", 1 << 30]]
    assert case["reason"] == "TopologyAffinityError"


def test_optional_parts() -> None:
    miss = miss_of(1, 0, [], shape_of((1, 0)))
    assert miss is not None
    for level in (PodLevelResources(), PodLevelResources(2000, (("memory", 1),))):
        leveled = miss._replace(shape=miss.shape._replace(pod_level=level))
        assert read_case(case_json(leveled)) == leveled


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("node",), 7, "case.node is not as it is written: '7'"),
        (("state", "free_cpus"), "many", "case.state.free_cpus is no integer: 'many'"),
        (("state", "free_cpus"), True, "case.state.free_cpus is not as it is written: 'True'"),
        (("shape", "qos"), "Best", "case.shape.qos is not as it is written: 'Best'"),
        (("shape", "containers"), {}, "case.shape.containers is not as it is written: '{}'"),
        (("state", "kind", "zones", 0), "x", "case.state.kind.zones[0] is no integer: 'x'"),
        (
            ("state", "kind", "policies", "release"),
            [1],
            "case.state.kind.policies.release is not as it is written: '[1]'",
        ),
        (("state", "kind"), None, "case.state.kind is not as it is written: 'None'"),
    ],
)
def test_damage_is_named(path: tuple[str | int, ...], value: Any, message: str | None) -> None:
    case = written()
    inner: Any = case
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    with pytest.raises(CaseError) as raised:
        read_case(json.dumps(case))
    assert str(raised.value) == (message or f"case.{'.'.join(map(str, path))} is not as it is written: '{value}'")


def test_what_is_missing_is_named() -> None:
    case = written()
    del case["foretold"]["reason"]
    with pytest.raises(CaseError, match=r"^case\.foretold\.reason is missing$"):
        read_case(json.dumps(case))
    with pytest.raises(CaseError, match=r"^not JSON: "):
        read_case("{")
