"""The pods of an elastic job belong to the slice that covers them."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from support.held_pods import held_pod
from zonewise_scheduler.controller.observed_pod import decode_observed_pod
from zonewise_scheduler.controller.slice_pods import SlicePods

Json = dict[str, Any]
SLICE_NAME = "kueue.x-k8s.io/workload-slice-name"


def pod(first: str) -> Any:
    """Return a pod of Workload ns/w, as watched; `first`: the first slice of its job."""
    obj = held_pod("p")
    if first:
        obj["metadata"]["annotations"][SLICE_NAME] = first
    return decode_observed_pod(msgspec.Raw(msgspec.json.encode(obj)))


def workload(name: str, first: str = "w", **conditions: str) -> Json:
    annotations = {SLICE_NAME: first, "kueue.x-k8s.io/elastic-job": "true"}
    metadata = {"name": name, "uid": name, "creationTimestamp": f"2026-01-01T00:00:0{len(name)}Z"}
    statuses = [{"type": kind, "status": status} for kind, status in conditions.items()]
    return {"metadata": {**metadata, "annotations": annotations}, "status": {"conditions": statuses}}


def owner(watched: Any) -> str:
    assert watched.tracked.workload == watched.managed.workload_key
    return watched.managed.workload


def test_pods_move_to_the_slice_that_takes_over() -> None:
    pods = SlicePods()
    assert owner(pods.observe_pod("ns", "p", pod("w"))) == "w"
    assert not list(pods.observe_workload("ns/w", workload("w", QuotaReserved="True")))
    assert not list(pods.observe_workload("ns/w2", workload("w2")))
    [(key, moved)] = pods.observe_workload("ns/w2", workload("w2", QuotaReserved="True"))
    assert (key, owner(moved)) == (("ns", "p"), "w2")
    assert owner(pods.observe_pod("ns", "q", pod("w"))) == "w2"
    assert owner(pods.observe_pod("ns", "other", pod(""))) == "w"
    assert not list(pods.observe_workload("ns/w", workload("w", QuotaReserved="True", Finished="True")))
    assert not list(pods.observe_workload("ns/w2", None)), "pods remain where they are"
    assert owner(pods.observe_pod("ns", "r", pod("w"))) == "w2"


STEPS = st.lists(
    st.tuples(st.sampled_from(["w", "w2", "w33", "p", "q"]), st.sampled_from(["gone", "pending", "quota", "ended"])),
    max_size=30,
)


@given(STEPS)
def test_all_pods_of_a_job_belong_to_one_slice(steps: list[tuple[str, str]]) -> None:
    """Invariant: it is the newest with quota. Nothing remains once all pods and Workloads are gone."""
    pods, shown, slices = SlicePods(), dict[str, str](), dict[str, str]()
    for name, state in steps:
        if name in "pq":
            observed = pods.observe_pod("ns", name, None if state == "gone" else pod("w"))
            shown.pop(name, None)
            if observed is not None:
                shown[name] = owner(observed)
        else:
            slices[name] = state
            quota = {"quota": {"QuotaReserved": "True"}, "ended": {"QuotaReserved": "True", "Finished": "True"}}
            obj = None if state == "gone" else workload(name, **quota.get(state, {}))
            for (_, moved), watched in pods.observe_workload(f"ns/{name}", obj):
                shown[moved] = owner(watched)
        covering = [each for each in ("w", "w2", "w33") if slices.get(each) == "quota"]
        assert len(set(shown.values())) <= 1
        assert not covering or set(shown.values()) <= {covering[-1]}
    for name in "pq":
        pods.observe_pod("ns", name, None)
    for name in slices:
        list(pods.observe_workload(f"ns/{name}", None))
    assert owner(pods.observe_pod("ns", "p", pod("w"))) == "w"
