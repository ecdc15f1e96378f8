"""Victims chosen from the cache: on nodes whose zones are full, and on nodes that kube-scheduler proposes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from support.extender_caches import LARGE_NODE, DirectCluster, candidates
from support.ledger_kubelets import pod_shape
from support.preemption_clusters import FIVE, SIX, PreemptionCluster, fragmented
from zonewise_common.k8s.labels import Requirement
from zonewise_common.k8s.taints import Taint
from zonewise_scheduler.admission.node import Resource
from zonewise_scheduler.extender.objects.disruption_budgets import DisruptionBudget
from zonewise_scheduler.extender.objects.pod_group import PodGroup
from zonewise_scheduler.extender.objects.running_pods import VictimFields
from zonewise_scheduler.extender.objects.served import Served
from zonewise_scheduler.extender.preemption.preemption_planner import read_preemptor
from zonewise_scheduler.extender.types import ProposedVictims
from zonewise_scheduler.nodes.node import avoided_conditions
from zonewise_scheduler.nodes.node.node_info import Labels, NodeInfo
from zonewise_scheduler.nodes.preemption.plan import PreemptionPlan
from zonewise_scheduler.nodes.preemption.types import Preemptor
from zonewise_scheduler.quota.api.pod_group_key import GroupKey

if TYPE_CHECKING:
    from zonewise_scheduler.admission.pod import PodShape


WHOLE_ZONE = pod_shape((8, 0))
"""A pod that needs all CPUs of a zone."""


def names(plan: PreemptionPlan) -> tuple[str, ...]:
    return tuple(pod.name for pod in plan.victims.pods) if plan.victims is not None else ()


def test_the_lowest_victim_of_all_nodes() -> None:
    cluster = fragmented()
    preemptor = cluster.wait("high", SIX)
    assert names(cluster.planner.plan(preemptor, ["m", "n"])) == ("b",)
    assert names(cluster.planner.plan(preemptor, ["m"])) == ("c",)
    assert cluster.planner.plan(preemptor, ["x"]) == PreemptionPlan()
    assert cluster.planner.plan(preemptor._replace(priority=1), ["m", "n"]) == PreemptionPlan()


def test_pods_that_end() -> None:
    """While a terminating pod will free the zone, or a report still lists a deleted pod, nothing is preempted."""
    cluster = fragmented()
    preemptor = cluster.wait("high", SIX)
    cluster.observe("b", victim=VictimFields(1, terminating=True))
    assert cluster.planner.plan(preemptor, ["n", "m"]).waiting_for == "n"
    cluster.delete("b")
    assert cluster.planner.plan(preemptor, ["n", "m"]).waiting_for == "n"


def test_the_zone_of_an_ended_pod_is_released_once() -> None:
    """While the agent is down, a pod takes the zone of an ended pod. The zone is then not free for a preemptor."""
    cluster = fragmented()
    cluster.run("small", pod_shape((1, 0)), "n", 3)
    DirectCluster.end(cluster, "b")  # without a report
    cluster.create("next", SIX)
    cluster.bound["next"] = cluster.filter("next").node
    assert cluster.bound["next"] == "n"
    assert cluster.arrive("next")
    DirectCluster.end(cluster, "small")
    preemptor = cluster.wait("high", SIX)
    assert names(cluster.planner.plan(preemptor, ["n"])) == ("a",)


def test_a_preemptor_whose_device_comes_from_a_device_class() -> None:
    """No node has the resource, but kube-scheduler proposes one: its victims are those of a pod without a device."""
    cluster = fragmented()
    preemptor = cluster.wait("high", pod_shape((6, 1)))
    assert names(cluster.planner.plan(preemptor, ["m", "n"])) == ("b",)
    [refined] = cluster.planner.refine(preemptor, {"n": ProposedVictims(("uid-a",), 0)})
    assert [pod.name for pod in refined.pods] == ["b"]


@pytest.mark.parametrize("reason", ["stale report", "backoff"])
def test_a_node_that_rejects_the_pod_anyway(reason: str) -> None:
    """No pod ends on a node that would reject the preemptor afterwards; another node has the victims."""
    cluster = fragmented()
    if reason == "backoff":
        cluster.cache.state.ledger.backoff.record_misprediction("n", SIX, cluster.clock())
    else:
        cluster.create("unreported", pod_shape((1, 0)))
        cluster.bound["unreported"] = "n"
        cluster.observe("unreported", started=cluster.clock())
        cluster.clock.advance(200)
    preemptor = cluster.wait("high", SIX)
    assert names(cluster.planner.plan(preemptor, ["n", "m"])) == ("c",)
    assert cluster.planner.refine(preemptor, {"n": ProposedVictims(("uid-b",), 0)}) == []
    assert gang_victims(cluster, gang_of(cluster, SIX, 2)) == {"c", "d"}


def test_budgets() -> None:
    cluster = fragmented()
    preemptor = cluster.wait("high", SIX)
    selector = DisruptionBudget("lab", "b", (), 0, frozenset())
    cluster.budgets.update(None, selector)
    assert cluster.planner.plan(preemptor, ["n", "m"]) == PreemptionPlan()
    cluster.budgets.update(selector, selector._replace(allowed=1))
    assert names(cluster.planner.plan(preemptor, ["n", "m"])) == ("b",)
    cluster.budgets.record_eviction(["lab/b"])
    assert cluster.planner.plan(preemptor, ["n", "m"]) == PreemptionPlan()
    cluster.clock.advance(31)
    assert names(cluster.planner.plan(preemptor, ["n", "m"])) == ("b",)


def test_a_nominated_pod_keeps_its_zone() -> None:
    """Pods of the same or a lower priority do not get the freed zone; the nominated pod does."""
    cluster = fragmented()
    preemptor = cluster.wait("high", SIX)
    state = cluster.cache.state
    state.nominated.nominations.begin(preemptor, "n", ["uid-b"], cluster.clock())
    cluster.wait("same", SIX)
    cluster.end("b")
    assert cluster.filter("same", "n").node == ""
    assert cluster.run_pass() == {"high": "n"}
    assert state.nominated.nominations.get("uid-high") is not None
    cluster.observe("high")
    assert state.nominated.nominations.get("uid-high") is None
    cluster.end("d")
    assert cluster.run_pass() == {"same": "m"}


def test_a_pod_of_higher_priority_takes_the_zone() -> None:
    cluster = fragmented()
    preemptor = cluster.wait("high", SIX)
    cluster.cache.state.nominated.nominations.begin(preemptor, "n", ["uid-b"], cluster.clock())
    cluster.wait("higher", SIX, priority=11)
    cluster.end("b")
    assert cluster.run_pass() == {"higher": "n"}


def test_an_abandoned_nomination_ends() -> None:
    """Ten seconds after the last victim has ended, other pods may use the zone."""
    cluster = fragmented()
    preemptor = cluster.wait("high", pod_shape((8, 0), (8, 0)))
    nominations = cluster.cache.state.nominated.nominations
    nominations.begin(preemptor, "n", ["uid-b"], cluster.clock())
    cluster.clock.advance(60)
    cluster.cache.tick()
    assert nominations.get("uid-high") is not None, "the victim is still there"
    cluster.end("b")
    cluster.clock.advance(9)
    cluster.cache.tick()
    assert nominations.get("uid-high") is not None
    cluster.clock.advance(2)
    cluster.cache.tick()
    assert nominations.get("uid-high") is None


def test_proposals_of_kube_scheduler() -> None:
    """kube-scheduler's victims are replaced by exact ones; a node on which no victims suffice is left out."""
    cluster = PreemptionCluster("n", "m", allocatable=Resource(16_000, 1 << 50, 1000, 0))
    for name, node, priority in (("a", "n", 2), ("b", "n", 2), ("c", "n", 1), ("d", "m", 9), ("e", "m", 9)):
        cluster.run(name, pod_shape((4, 0)) if node == "n" else pod_shape((8, 0)), node, priority)
    cluster.run("f", pod_shape((4, 0)), "n", 3)
    preemptor = cluster.wait("high", pod_shape((8, 0)), priority=9)
    proposed = {"n": ProposedVictims(("uid-c", "uid-a"), 0), "m": ProposedVictims(("uid-d",), 0)}
    [victims] = cluster.planner.refine(preemptor, proposed)
    assert (victims.node, {pod.name for pod in victims.pods}) == ("n", {"a", "b"})


def test_a_pod_that_never_preempts() -> None:
    cluster = fragmented()
    pod = cluster.create("p", SIX)
    assert read_preemptor(pod, {"spec": {"preemptionPolicy": "Never", "priority": 5}}) is None
    assert read_preemptor(pod, {"spec": {"priority": 5}}) == Preemptor(*pod, 5)
    assert read_preemptor(pod, {"spec": {}}) == Preemptor(*pod, 0)


def gang_of(
    cluster: PreemptionCluster,
    shape: PodShape,
    size: int,
    *,
    priority: int = 10,
    priorities: Sequence[int] = (),
    level: str = "",
) -> GroupKey:
    """Create a gang that no node admits, and return its key."""
    nodes = tuple(cluster.kubelets)
    key = GroupKey("scheduling.x-k8s.io", "lab", "g")
    cluster.cache.set_pod_groups_served(key.api_group, Served.YES)
    cluster.cache.update_pod_group(None, PodGroup(key, size, level=level))
    for number, own in enumerate(priorities or [priority] * size):
        pod = cluster.create(f"g-{number}", shape, priority=own, group=key)
        result = cluster.cache.select_gang_member(pod, key, "default-scheduler", candidates(nodes))
        assert result is not None
        assert not result.node
    return key


def test_a_gang_with_a_pod_of_another_scheduler() -> None:
    """The gang cannot start, so no pod ends for it."""
    cluster = fragmented()
    key = gang_of(cluster, SIX, 2)
    assert gang_victims(cluster, key) == {"a", "b"}
    cluster.specs["g-1"] = cluster.specs["g-1"]._replace(scheduler="other")
    cluster.observe("g-1")
    assert gang_victims(cluster, key) == set()


def test_a_gang_and_a_node_with_an_avoided_condition() -> None:
    """kube-scheduler passes the node, but no gang gets it, so no pod ends there."""
    cluster = fragmented()
    taint = Taint(avoided_conditions.KEY, "GPUHardwareFault XID79", "NoSchedule")
    cluster.cache.update_node(None, NodeInfo("n", taints=(taint,), allocatable=LARGE_NODE))
    assert gang_victims(cluster, gang_of(cluster, SIX, 2)) == {"c", "d"}


@pytest.mark.parametrize(("cpus", "victims"), [(18, {"a", "b"}), (19, set[str]())])
def test_the_min_resources_of_a_gang(cpus: int, victims: set[str]) -> None:
    """Each node has 4 CPUs left, and each victim frees 5. If that is too little for the gang, no pod ends for it."""
    cluster = fragmented(Resource(14_000, 1 << 50, 100, 0))
    group = PodGroup(GroupKey("scheduling.x-k8s.io", "lab", "g"), 2, min_resources=Resource(cpus * 1000, 0, 0, 0))
    key = gang_of(cluster, SIX, 2)
    cluster.cache.update_pod_group(None, group)
    assert gang_victims(cluster, key) == victims


def gang_victims(cluster: PreemptionCluster, key: GroupKey) -> set[str]:
    """Return the names of the victims chosen for a gang."""
    preemption = cluster.planner.plan_gang(key, tuple(cluster.kubelets))
    return {pod.name for each in preemption.victims for pod in each.pods} if preemption is not None else set()


def test_the_lowest_victims_for_a_gang() -> None:
    """All members fit after the victims have ended. A gang that is too large, or of too low a priority, has none."""
    for size, priority, victims in ((2, 10, {"a", "b"}), (3, 10, {"a", "b", "c"}), (3, 3, {"a", "b", "c"})):
        cluster = fragmented()
        assert gang_victims(cluster, gang_of(cluster, SIX, size, priority=priority)) == victims
    for size, priority in ((5, 10), (3, 2), (4, 3)):
        cluster = fragmented()
        assert gang_victims(cluster, gang_of(cluster, SIX, size, priority=priority)) == set()


@pytest.mark.parametrize("priorities", [(10, 2), (2, 10)])
def test_no_gang_takes_the_zone_of_a_nominated_pod_of_higher_priority(priorities: tuple[int, int]) -> None:
    """Two pods of a zone each would be preempted for a gang of two, although one member could never start there."""
    cluster = PreemptionCluster("n")
    for name in ("a", "b"):
        cluster.run(name, WHOLE_ZONE, "n", 1)
    nominated = cluster.wait("nominated", WHOLE_ZONE, priority=5)
    cluster.cache.state.nominated.nominations.begin(nominated, "n", ["uid-a"], cluster.clock())
    assert gang_victims(cluster, gang_of(cluster, WHOLE_ZONE, 2, priorities=priorities)) == set()


def test_budgets_of_a_gang() -> None:
    """All members of a gang together evict at most as many pods of a budget as the budget allows."""
    cluster = fragmented()
    cluster.budgets.update(None, DisruptionBudget("lab", "b", (), 1, frozenset()))
    key = gang_of(cluster, SIX, 2)
    assert gang_victims(cluster, key) == set()
    cluster.budgets.update(None, DisruptionBudget("lab", "b", (), 2, frozenset()))
    assert gang_victims(cluster, key) == {"a", "b"}


def test_a_gang_takes_what_its_victims_free() -> None:
    """The members are nominated together, and placed together after the victims have ended."""
    cluster = fragmented()
    key = gang_of(cluster, SIX, 3)
    preemption = cluster.planner.plan_gang(key, ["n", "m"])
    assert preemption is not None
    nominations = cluster.cache.state.nominated.nominations
    for member, node in preemption.claims:
        nominations.begin(member, node, {"uid-a", "uid-b", "uid-c"}, cluster.clock())
    cluster.wait("low", SIX, priority=9)
    for name in ("a", "b"):
        cluster.end(name)
        assert cluster.run_pass() == {}, "no member starts alone, and no lower pod takes its zone"
    cluster.end("c")
    assert cluster.run_pass().keys() == {"g-0", "g-1", "g-2"}
    assert all(cluster.arrive(f"g-{number}") for number in range(3))


Racks = Mapping[str, Sequence[int]]
"""Priorities of the running pods by rack; each pod uses a zone."""


def racks(pods: Racks) -> PreemptionCluster:
    """Return a cluster of racks with nodes of two zones; the name of a pod is its rack and its number."""
    places = [(rack, number) for rack, priorities in pods.items() for number in range(len(priorities))]
    cluster = PreemptionCluster(*dict.fromkeys(f"{rack}-{number // 2}" for rack, number in places))
    for node in cluster.kubelets:
        labels = Labels(("rack",), (node.partition("-")[0],)) if not node.startswith("unlabelled") else Labels()
        cluster.cache.update_node(None, NodeInfo(node, labels, allocatable=LARGE_NODE))
    for rack, number in places:
        cluster.run(f"{rack}{number}", FIVE, f"{rack}-{number // 2}", pods[rack][number])
    return cluster


@pytest.mark.parametrize(
    ("pods", "victims"),
    [
        pytest.param({"a": (2, 2), "b": (1, 1)}, {"b0", "b1"}, id="the lowest priority"),
        pytest.param({"a": (1, 5), "b": (4, 4)}, {"b0", "b1"}, id="the lowest of the highest priorities"),
        pytest.param({"a": (3, 3), "b": (1, 3)}, {"b0", "b1"}, id="the lowest sum"),
        pytest.param({"a": (9, 2, 9, 2), "b": (3, 3)}, {"a1", "a3"}, id="pods of two nodes"),
        pytest.param({"a": (1, 9), "b": (9, 1)}, {"a0", "a1"}, id="the lowest of both racks are not together"),
        pytest.param({"a": (1, 12), "b": (9, 9)}, {"b0", "b1"}, id="no pod of a higher priority"),
        pytest.param({"a": (1,), "b": (9, 9)}, {"a0"}, id="the fewest: one zone is free already"),
        pytest.param({"unlabelled": (1, 1), "b": (9, 9)}, {"b0", "b1"}, id="a node outside of any rack"),
        pytest.param({"a": (1, 12), "b": (9, 10)}, set[str](), id="no rack suffices"),
    ],
)
def test_the_rack_for_a_gang(pods: Racks, victims: set[str]) -> None:
    """Among the racks that victims could free, the one with the cheapest victims is chosen."""
    cluster = racks(pods)
    assert gang_victims(cluster, gang_of(cluster, SIX, 2, level="rack")) == victims


def test_the_rack_whose_budgets_allow_preemption() -> None:
    cluster = racks({"a": (1, 1), "b": (2, 2)})
    selector = (Requirement("app", "In", ("a0", "a1")),)
    cluster.budgets.update(None, DisruptionBudget("lab", "b", selector, 1, frozenset()))
    assert gang_victims(cluster, gang_of(cluster, SIX, 2, level="rack")) == {"b0", "b1"}


def test_the_rack_that_ending_pods_free() -> None:
    """While enough pods of a rack are terminating, no pod is preempted, neither in that rack nor in another."""
    cluster = racks({"a": (1, 1), "b": (2, 2)})
    key = gang_of(cluster, SIX, 2, level="rack")
    for name in ("b0", "b1"):
        cluster.observe(name, victim=VictimFields(2, terminating=True))
    assert gang_victims(cluster, key) == set()


def test_members_and_victims_are_in_one_rack() -> None:
    cluster = racks({"a": (1, 1), "b": (2, 2)})
    preemption = cluster.planner.plan_gang(gang_of(cluster, SIX, 2, level="rack"), tuple(cluster.kubelets))
    assert preemption is not None
    assert [node for _, node in preemption.claims] == ["a-0", "a-0"]
    assert [each.node for each in preemption.victims] == ["a-0"]


_PRIORITIES = st.lists(st.integers(0, 5), min_size=1, max_size=4)


def cost(priorities: Sequence[int]) -> tuple[int, int, int]:
    """Return the highest priority of the victims, their number, and the sum of their priorities."""
    return max(priorities), len(priorities), sum(priorities)


@settings(max_examples=25)
@given(st.lists(_PRIORITIES, min_size=1, max_size=3), st.integers(1, 3), st.integers(1, 6))
def test_no_rack_costs_less(priorities: list[list[int]], size: int, own: int) -> None:
    """Each pod frees a zone for one member, so the best victims of a rack are its pods of the lowest priority."""
    pods = dict(zip("abc", priorities, strict=False))
    free = {rack: len(each) % 2 for rack, each in pods.items()}
    assume(max(free.values()) < size)  # otherwise the gang fits in a rack without preemption
    cluster = racks(pods)
    lowest = {
        rack: sorted(priority for priority in each if priority < own)[: size - free[rack]]
        for rack, each in pods.items()
    }
    costs = sorted(cost(each) for rack, each in lowest.items() if len(each) + free[rack] == size)
    victims = gang_victims(cluster, gang_of(cluster, SIX, size, priority=own, level="rack"))
    assert [cost([pods[name[0]][int(name[1:])] for name in victims]) for _ in victims][:1] == costs[:1]
