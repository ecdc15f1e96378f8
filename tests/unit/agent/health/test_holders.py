"""Which pods held a device when, with any number of pods on one GPU; and workload names derived from pod names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise.health.holders import MAX_HOLDERS, Holders, holders_at, observe_holders, workload_name
from zonewise.health.types import GPU, MAX_PODS, MIG, DeviceId, PodName

DEVICE = DeviceId(GPU, "0000:3b:00.0")
SHARED = frozenset(range(3 * MAX_HOLDERS))
"""The pods of a GPU that is shared by time slicing."""


@pytest.mark.parametrize(
    ("pod", "workload"),
    [
        ("train-7x2bq", "train"), ("train-12-7x2bq", "train"), ("infer-6d4f8b9c7d-x2x4z", "infer"), ("db-0", "db"),
        ("a", "a"), ("train-a", "train-a"), ("0", "0"), ("resnet-50-eval", "resnet-50-eval"),
    ],
)  # fmt: skip
def test_suffixes_of_controllers_are_removed(pod: str, workload: str) -> None:
    assert workload_name(PodName("ns", pod)) == f"ns/{workload}"


@given(st.lists(st.one_of(st.just(SHARED), st.frozensets(st.sampled_from(sorted(SHARED)))), max_size=6))
def test_a_holder_does_not_change_while_it_holds_the_device(steps: list[frozenset[int]]) -> None:
    holders: Holders = {}
    for number, step in enumerate(steps, 1):
        now, before = 60.0 * number, {holder.pod: holder for holder in holders.get(DEVICE, ()) if holder.until is None}
        held = {DEVICE: [PodName("team", f"pod-{i}") for i in step]}
        holders = observe_holders(holders, held, now, now - 60.0)
        assert observe_holders(holders, held, now, now) == holders
        known = holders.get(DEVICE, ())
        running = {holder.pod: holder for holder in known if holder.until is None}
        assert len(known) <= 2 * MAX_HOLDERS
        assert len(running) == min(len(step), MAX_HOLDERS)
        for pod in before.keys() & held[DEVICE]:
            assert running[pod] == before[pod]
        assert len(holders_at(holders, DEVICE, now)) >= min(len(step), MAX_PODS)


@pytest.mark.parametrize(
    ("instance", "affected"),
    [("", "abcdw"), ("1", "abw"), ("1/0", "aw"), ("2", "cdw"), ("2/0", "cdw"), ("12", "dw"), ("7", "w")],
)
def test_an_event_of_an_instance_concerns_only_the_pods_of_its_mig_devices(instance: str, affected: str) -> None:
    """Pod d holds two MIG devices, and pod w an unknown part of the GPU."""
    migs = {"1/0": "a", "1/1": "b", "2/0": "cd", "12/0": "d"}
    held = {DeviceId(MIG, f"{DEVICE.name}/{name}"): [PodName("ns", pod) for pod in pods] for name, pods in migs.items()}
    held |= {DEVICE: [PodName("ns", pod) for pod in "abcdw"], DeviceId(MIG, "0000:3b:00.1/1/0"): [PodName("ns", "w")]}
    holders = observe_holders({}, held, 60.0, 0.0)
    assert "".join(holder.pod.pod for holder in holders_at(holders, DEVICE, 61.0, instance)) == affected
