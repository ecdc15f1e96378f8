"""The Workloads of a LeaderWorkerSet or StatefulSet that belong to none of its groups any more."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.k8s.fields import FieldError
from zonewise_common.kube.resources import LEADER_WORKER_SETS, STATEFUL_SETS
from zonewise_scheduler.controller.pods.group_owner import MAX_REPLICAS, GroupOwner, read_group_owner
from zonewise_scheduler.controller.reconcile.plain_pods_state import surplus_workloads

Json = dict[str, Any]

CONTAINERS: Json = {"spec": {"containers": [{"name": "c", "image": "i"}]}}


def leader_worker_set(replicas: int, status: Json | None = None) -> Json:
    rollout: Json = {"rollingUpdateConfiguration": {"maxSurge": 2}}
    template: Json = {"size": 2, "workerTemplate": CONTAINERS}
    return {
        "metadata": {"name": "serve", "namespace": "ns", "uid": "u"},
        "spec": {"replicas": replicas, "rolloutStrategy": rollout, "leaderWorkerTemplate": template},
        "status": status or {},
    }


def workload_of(owner: GroupOwner, replica: str, pods: int, *, adopted: bool = False) -> tuple[str, Json]:
    name = owner.workload_names(replica)[adopted]
    return f"ns/{name}", {"metadata": {"name": name, "uid": replica}, "spec": {"podSets": [{"count": pods}]}}


@given(
    st.integers(0, 4),
    st.dictionaries(st.integers(0, 6), st.tuples(st.booleans(), st.booleans(), st.booleans())),
)
def test_inactive_workloads_of_other_replicas_or_of_another_size_are_deleted(
    replicas: int, groups: dict[int, tuple[bool, bool, bool]]
) -> None:
    """`groups`: for each replica with a Workload, whether its pods are active, its size is old, and Kueue named it."""
    obj = leader_worker_set(replicas)
    owner = read_group_owner(LEADER_WORKER_SETS, obj)
    workloads: dict[str, Json] = {}
    active: set[str] = set()
    expected: set[str] = set()
    for replica, (is_active, has_other_size, adopted) in groups.items():
        key, workload = workload_of(owner, str(replica), 3 if has_other_size else 2, adopted=adopted)
        workloads[key] = workload
        active |= {key} if is_active else set()
        expected |= {key} if not is_active and (has_other_size or replica >= replicas) else set()
    writes = surplus_workloads(LEADER_WORKER_SETS, obj, workloads, lambda key: key in active)
    assert {write.workload for write in writes} == expected


def test_a_set_without_pods_has_no_workload() -> None:
    obj: Json = {
        "metadata": {"name": "db", "namespace": "ns", "uid": "u"},
        "spec": {"replicas": 0, "template": CONTAINERS},
    }
    key, workload = workload_of(read_group_owner(STATEFUL_SETS, obj), "", 0)
    [write] = surplus_workloads(STATEFUL_SETS, obj, {key: workload}, lambda _key: 0)
    assert write.workload == key
    obj["spec"]["replicas"] = 3
    workload["spec"]["podSets"][0]["count"] = 3
    assert not surplus_workloads(STATEFUL_SETS, obj, {key: workload}, lambda _key: 0)


def test_names_of_groups_without_a_workload_are_not_compared() -> None:
    """Any user may create a set of 100,000 replicas, which exist one after another."""
    obj = leader_worker_set(MAX_REPLICAS)
    owner = read_group_owner(LEADER_WORKER_SETS, obj)
    workloads = dict(workload_of(owner, str(replica), 2) for replica in range(3))
    with patch.object(GroupOwner, "workload_names", autospec=True, side_effect=GroupOwner.workload_names) as names:
        assert not surplus_workloads(LEADER_WORKER_SETS, obj, workloads, lambda _key: 0)
        assert names.call_count == 3
        assert not surplus_workloads(LEADER_WORKER_SETS, obj, workloads, lambda _key: 1)
        assert names.call_count == 3


@pytest.mark.parametrize(("replicas", "status"), [
    (MAX_REPLICAS + 1, {}),
    (1, {"updatedReplicas": 0, "replicas": MAX_REPLICAS + 1}),
])  # fmt: skip
def test_a_set_with_too_many_replicas_is_invalid(replicas: int, status: Json) -> None:
    with pytest.raises(FieldError, match="replicas: not between 0 and 100000: 100001"):
        read_group_owner(LEADER_WORKER_SETS, leader_worker_set(replicas, status))
