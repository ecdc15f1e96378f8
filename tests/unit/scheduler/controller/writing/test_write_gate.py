"""Which writes may be sent: one per object at a time, and none for a paused object until it changes."""

from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.kube.resources import JOBS, WORKLOADS
from zonewise_scheduler.controller.types import ObjectKey, Verb, Write
from zonewise_scheduler.controller.writing.write_gate import PAUSE, WriteGate


def write(name: str = "j") -> Write:
    return Write(Verb.MERGE_PATCH, ObjectKey(JOBS, "ns", name), "start")


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=20))
def test_an_object_has_at_most_one_write_in_flight(steps: list[tuple[str, bool]]) -> None:
    gate, in_flight = WriteGate(), set[str]()
    for name, claims in steps:
        if claims:
            assert gate.claim(write(name), 1, 0.0) == (name not in in_flight)
            in_flight.add(name)
        else:
            gate.end(write(name))
            in_flight.discard(name)
        assert gate.is_in_flight(write(name).key) == claims
        assert len(gate) == len(in_flight)


def test_a_failed_write_waits_for_another_version_or_the_end_of_the_pause() -> None:
    gate = WriteGate()
    assert gate.claim(write(), 5, 0.0)
    gate.pause(write(), gate.end(write()), 0.0)
    assert not gate.claim(write(), 5, PAUSE - 1)
    assert gate.claim(write(), 6, PAUSE - 1)
    assert gate.pause_ends_at == inf


def test_the_pauses_of_a_kind_can_end_early() -> None:
    gate = WriteGate()
    workload = Write(Verb.CREATE, ObjectKey(WORKLOADS, "ns", "w"), "create")
    gate.pause(write(), 0, 10.0)
    gate.pause(workload, 0, 10.0)
    assert gate.end_pauses_of(WORKLOADS) == [workload.key]
    assert gate.claim(workload, 0, 11.0)
    assert not gate.claim(write(), 0, 11.0)


def test_the_objects_of_expired_pauses_are_returned_once() -> None:
    gate = WriteGate()
    gate.pause(write(), 5, 10.0)
    assert gate.pause_ends_at == 10.0 + PAUSE
    assert gate.end_pauses(9.0 + PAUSE) == []
    assert gate.end_pauses(10.0 + PAUSE) == [write().key]
    assert gate.end_pauses(inf) == []


def test_a_replica_that_starts_to_lead_waits_for_no_pause() -> None:
    gate = WriteGate()
    gate.pause(write(), 5, 10.0)
    gate.end_all_pauses()
    assert gate.pause_ends_at == inf
    assert gate.claim(write(), 5, 11.0)
