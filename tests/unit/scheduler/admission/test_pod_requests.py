"""The requests of a whole pod, compared with those of its containers over time."""

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
    return sum(amounts.get(name, 0) for amounts in running)


@given(st.lists(st.tuples(STARTING, AMOUNTS), max_size=5), st.lists(AMOUNTS, max_size=3))
def test_peak_over_time(starting: list[tuple[Role, Amounts]], apps: list[Amounts]) -> None:
    """The peak is computed for each resource that any container names, even if the request is 0."""
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


def test_pod_level_requests_replace_those_of_containers() -> None:
    """The overhead of the runtime class is added."""
    assert combine_pod_requests({"cpu": 1, "gpu": 2}, {"cpu": 5, "memory": 7}, [("cpu", 1), ("storage", 3)]) == {
        "cpu": 6,
        "memory": 7,
        "gpu": 2,
        "storage": 3,
    }


def test_defaults_of_pod_level_resources() -> None:
    """Without a limit, only requests count. With a limit, the requests of containers take precedence over it."""
    container_requests = {"cpu": 2, "hugepages-2Mi": 4, "gpu": 1}
    assert default_pod_resources({}, {}, container_requests) == ({}, {})
    assert default_pod_resources({"cpu": 3}, {}, {"memory": 9}) == ({"cpu": 3}, {})
    assert default_pod_resources({}, {"cpu": 8, "memory": 6}, container_requests) == (
        {"cpu": 2, "memory": 6, "hugepages-2Mi": 4},
        {"cpu": 8, "memory": 6, "hugepages-2Mi": 4},
    )
    assert default_pod_resources({"hugepages-2Mi": 8}, {}, container_requests) == ({"hugepages-2Mi": 8}, {})
