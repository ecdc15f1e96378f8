"""What a pod requests as one, against its life told step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.admission.pod_requests import (
    aggregate_container_requests,
    combine_pod_requests,
    default_pod_resources,
)

if TYPE_CHECKING:
    from zonewise_common.k8s.podspec import Role

AMOUNTS = st.dictionaries(st.sampled_from(("cpu", "memory", "example.com/gpu")), st.integers(0, 9), max_size=3)
STARTING: st.SearchStrategy[Role] = st.sampled_from(["init", "sidecar"])
Amounts = dict[str, int]


def total(running: list[Amounts], name: str) -> int:
    return sum(one.get(name, 0) for one in running)


@given(st.lists(st.tuples(STARTING, AMOUNTS), max_size=5), st.lists(AMOUNTS, max_size=3))
def test_the_most_that_runs_at_any_moment(starting: list[tuple[Role, Amounts]], apps: list[Amounts]) -> None:
    """Of each resource that any container names, whatever it asks of it."""
    moments: list[list[Amounts]] = []
    running: list[Amounts] = []
    for role, amounts in starting:
        moments.append([*running, amounts])
        if role == "sidecar":
            running.append(amounts)
    moments.append([*running, *apps])
    containers: list[tuple[Role, Amounts]] = [*starting, *(("app", amounts) for amounts in apps)]
    named = {name for _, amounts in containers for name in amounts}
    expected = {name: max(total(moment, name) for moment in moments) for name in named}
    assert aggregate_container_requests((role, amounts.items()) for role, amounts in containers) == expected


def test_own_requests_stand_for_those_of_containers_and_overhead_comes_on_top() -> None:
    assert combine_pod_requests({"cpu": 1, "gpu": 2}, {"cpu": 5, "memory": 7}, [("cpu", 1), ("storage", 3)]) == {
        "cpu": 6,
        "memory": 7,
        "gpu": 2,
        "storage": 3,
    }


def test_defaults_of_own_resources() -> None:
    """Without a limit nothing but what is requested; with one, containers before limits, hugepages from containers."""
    together = {"cpu": 2, "hugepages-2Mi": 4, "gpu": 1}
    assert default_pod_resources({}, {}, together) == ({}, {})
    assert default_pod_resources({"cpu": 3}, {}, {"memory": 9}) == ({"cpu": 3}, {})
    assert default_pod_resources({}, {"cpu": 8, "memory": 6}, together) == (
        {"cpu": 2, "memory": 6, "hugepages-2Mi": 4},
        {"cpu": 8, "memory": 6, "hugepages-2Mi": 4},
    )
    assert default_pod_resources({"hugepages-2Mi": 8}, {}, together) == ({"hugepages-2Mi": 8}, {})
