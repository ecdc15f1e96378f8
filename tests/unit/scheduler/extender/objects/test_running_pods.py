"""The running pods of each node, compared with a plain dictionary."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.admission.pod import PodShape
from zonewise_scheduler.extender.objects.running_pods import RunningPods, VictimFields, read_victim_fields
from zonewise_scheduler.nodes.assumed.types import BoundPod

SHAPE = PodShape((), "BestEffort")
events = st.lists(st.tuples(st.sampled_from("pqr"), st.sampled_from(["n", "m", ""]), st.integers(-2, 2)))


@given(events)
def test_any_events(changes: list[tuple[str, str, int]]) -> None:
    running = RunningPods()
    expected: dict[str, tuple[str, int]] = {}
    for uid, node, priority in changes:
        if node:
            running.set(BoundPod(uid, "ns", uid, SHAPE, node), VictimFields(priority))
            expected[uid] = node, priority
        else:
            running.remove(uid)
            expected.pop(uid, None)
        for each in ("n", "m"):
            priorities = {key: low for key, (place, low) in expected.items() if place == each}
            assert {pod.uid for pod, _ in running.on_node(each)} == priorities.keys()
            assert running.lowest_priority(each) == min(priorities.values(), default=None)
        for bound in range(-3, 4):
            assert running.has_below(bound) == any(low < bound for _, low in expected.values())
        assert all((uid in running) == (uid in expected) for uid in "pqr")


def test_fields() -> None:
    pod = {
        "metadata": {"labels": {"b": "2", "a": "1"}, "deletionTimestamp": "2026-01-01T00:00:00Z",
                     "annotations": {"kubernetes.io/config.mirror": "x"}},
        "spec": {"priority": 7},
    }  # fmt: skip
    assert read_victim_fields(pod) == VictimFields(7, (("a", "1"), ("b", "2")), static=True)
    assert read_victim_fields({"spec": {"priority": "x"}, "metadata": []}) == VictimFields()
