"""Flavor assignment: the end of the scan, the reported reasons, several pod sets, and nomination mappings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.quota_strategies import (
    CPU,
    KEYS,
    cpu_queue,
    nonzero_usage,
    pending_workload,
    running_workload,
    snapshots,
)
from zonewise_common.k8s.labels import Requirement
from zonewise_scheduler.quota.api.amount import hash_resource_name
from zonewise_scheduler.quota.api.configuration import DEFAULT_SETTINGS
from zonewise_scheduler.quota.api.queue_types import ClusterQueue, ResourceFlavor
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, FlavorResource, ResourceQuota, resource_group
from zonewise_scheduler.quota.api.resource_settings import ResourceSettings
from zonewise_scheduler.quota.api.workload_types import (
    Admission,
    PodSet,
    PodSetAdmission,
    TopologyRequest,
    Workload,
)
from zonewise_scheduler.quota.flavorassigner.assignment import (
    AssignmentClusterQueueState,
    least_severe_reason,
    most_severe_reason,
)
from zonewise_scheduler.quota.flavorassigner.flavor_scan import FlavorAssigner
from zonewise_scheduler.quota.flavorassigner.flavorassigner import assign_flavors, flavor_alternatives
from zonewise_scheduler.quota.flavorassigner.granular_mode import FlavorAssignmentMode
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot, fits
from zonewise_scheduler.quota.hierarchy.topology_snapshot import EmptyTopologySnapshot, TopologyPlacementFailure
from zonewise_scheduler.quota.preemption.preemption_oracle import new_oracle
from zonewise_scheduler.quota.topology.types import PodSetTopologyRequest, TopologyAssignment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.quota.flavorassigner.assignment import Assignment, NoFitReason
    from zonewise_scheduler.quota.flavorassigner.flavorassigner import FlavorAlternatives
    from zonewise_scheduler.quota.hierarchy.topology_snapshot import PlacementRequest, TopologyAssignments


def make_assigner(snapshot: Snapshot, workload: Workload, queue: str = "q", **fields: Any) -> FlavorAssigner:
    oracle = new_oracle(snapshot, DEFAULT_SETTINGS)
    return FlavorAssigner(snapshot, workload, snapshot.cluster_queues[queue], oracle, **fields)


def two_flavors(old: int, new: int) -> Snapshot:
    """Return a queue with CPUs of an old and a new flavor."""
    flavors = [FlavorQuotas(name, (("cpu", ResourceQuota(amount)),)) for name, amount in (("old", old), ("new", new))]
    return Snapshot([ClusterQueue("q", (resource_group(*flavors),))])


def flavor_names(assignment: Assignment) -> list[dict[str, str]]:
    return [{resource: flavor.name for resource, flavor in pod_set.flavors.items()} for pod_set in assignment.pod_sets]


@given(snapshots(), st.integers(0, 9), st.integers(0, 4))
def test_the_mode_agrees_with_the_available_quota(snapshot: Snapshot, amount: int, priority: int) -> None:
    """The snapshot does not change."""
    before = nonzero_usage(snapshot)
    for name, queue in snapshot.cluster_queues.items():
        assignment = assign_flavors(make_assigner(snapshot, pending_workload("new", amount, priority), name))
        mode = assignment.representative_mode
        assert mode != FlavorAssignmentMode.FIT or fits(queue, assignment.usage)
        assert (assignment.no_fit_reason == "") == (mode != FlavorAssignmentMode.NO_FIT)
        assert mode == FlavorAssignmentMode.FIT or any(pod_set.statuses for pod_set in assignment.pod_sets)
        assert mode != FlavorAssignmentMode.NO_FIT or not any(amount <= queue.available(key) for key in KEYS)
    assert nonzero_usage(snapshot) == before


def test_the_scan_continues_where_it_ended() -> None:
    snapshot, new = two_flavors(4, 4), pending_workload("new", 2)
    state = AssignmentClusterQueueState({"main": {"cpu": 0}})
    assert flavor_names(assign_flavors(make_assigner(snapshot, new))) == [{"cpu": "old"}]
    assert flavor_names(assign_flavors(make_assigner(snapshot, new, last_assignment=state))) == [{"cpu": "new"}]


def test_pod_sets_count_the_usage_of_those_before_them() -> None:
    pod_sets = tuple(PodSet(name, requests={"cpu": 3}) for name in ("leader", "workers"))
    assignment = assign_flavors(make_assigner(two_flavors(4, 4), Workload("ns", "new", pod_sets)))
    assert flavor_names(assignment) == [{"cpu": "old"}, {"cpu": "new"}]
    assert assignment.usage == {FlavorResource("old", "cpu"): 3, FlavorResource("new", "cpu"): 3}


def test_statuses_have_the_reason_of_each_flavor() -> None:
    """The reason includes the missing amount, and whether it is only in use."""
    snapshot = two_flavors(2, 4)
    snapshot.add_workload(running_workload("w", "q", FlavorResource("new", "cpu"), 3))
    statuses = assign_flavors(make_assigner(snapshot, pending_workload("new", 3))).pod_sets[0].statuses
    assert [(status.reason, status.flavor, status.missing) for status in statuses] == [
        ("ExceedsMaxQuota", "old", 1),
        ("InUse", "new", 2),
    ]
    assert assign_flavors(make_assigner(snapshot, pending_workload("new", 9))).no_fit_reason == "ExceedsMaxQuota"


def test_a_resource_without_quota() -> None:
    """The workload does not fit, unless it requests 0 or undeclared resources are ignored."""
    snapshot = two_flavors(4, 4)
    block, ignore = ResourceSettings("BlockUndeclared"), ResourceSettings("IgnoreUndeclared")
    for amount, resources, mode in (
        (1, block, FlavorAssignmentMode.NO_FIT),
        (0, block, FlavorAssignmentMode.FIT),
        (1, ignore, FlavorAssignmentMode.FIT),
    ):
        new = Workload("ns", "new", (PodSet(requests={"cpu": 1, "gpu": amount}),))
        settings = DEFAULT_SETTINGS._replace(resources=resources)
        assignment = assign_flavors(make_assigner(snapshot, new, settings=settings))
        assert assignment.representative_mode == mode
        assert assignment.no_fit_reason == ("NoMatchingFlavor" if mode == FlavorAssignmentMode.NO_FIT else "")


def test_each_resource_gets_a_flavor_of_its_group() -> None:
    """The result does not depend on how many resources of one group precede those of another."""
    names = sorted(["cpu", "memory", "example.com/a", "example.com/b"], key=hash_resource_name)
    together, alone = [names[0], names[1]], [names[2], names[3]]
    groups = tuple(
        resource_group(FlavorQuotas("-".join(each), tuple((name, ResourceQuota(4)) for name in each)))
        for each in (together, alone)
    )
    new = Workload("ns", "new", (PodSet(requests=dict.fromkeys(names, 1)),))
    assignment = assign_flavors(make_assigner(Snapshot([ClusterQueue("q", groups)]), new))
    assert flavor_names(assignment) == [{name: "-".join(each) for each in (together, alone) for name in each}]


def test_the_first_resource_that_lacks_quota_is_reported() -> None:
    """Kueue's order of resources: memory precedes CPUs, and devices may be in between."""
    groups = (
        resource_group(FlavorQuotas("nodes", (("cpu", ResourceQuota(1)),))),
        resource_group(FlavorQuotas("memory", (("memory", ResourceQuota(1)),))),
    )
    snapshot = Snapshot([ClusterQueue("q", groups)])
    for requests, resource, reason in (
        ({"cpu": 2, "memory": 2}, "memory", "ExceedsMaxQuota"),
        ({"cpu": 2, "example.com/gpu": 1}, "example.com/gpu", "NoMatchingFlavor"),
        ({"cpu": 2, "memory": 1}, "cpu", "ExceedsMaxQuota"),
    ):
        assignment = assign_flavors(make_assigner(snapshot, Workload("ns", "new", (PodSet(requests=requests),))))
        resources = [status.resource for status in assignment.pod_sets[0].statuses]
        assert (resources, assignment.no_fit_reason) == ([resource], reason)


def test_only_mapped_and_allowed_flavors_are_tried() -> None:
    new = pending_workload("new", 2)
    mapping = {"main": {"cpu": "new"}}
    assert flavor_names(assign_flavors(make_assigner(two_flavors(4, 4), new, nomination_mapping=mapping))) == [
        {"cpu": "new"}
    ]
    disallowed = replace(new, allowed_flavors=frozenset({"none"}))
    assignment = assign_flavors(make_assigner(two_flavors(4, 4), disallowed))
    assert assignment.representative_mode == FlavorAssignmentMode.NO_FIT


def test_each_flavor_that_is_missing_has_its_own_reason() -> None:
    names = ("one", "two", "three")
    flavors = [FlavorQuotas(name, (("cpu", ResourceQuota(4)),)) for name in names]
    snapshot = Snapshot([ClusterQueue("q", (resource_group(*flavors),))], resource_flavors={})
    [pod_set] = assign_flavors(make_assigner(snapshot, pending_workload("new", 2))).pod_sets
    assert [[status.flavor for status in flavor.statuses] for flavor in pod_set.considered_flavors] == [
        [name] for name in names
    ]


@pytest.mark.parametrize(("amount", "missing"), [(4, 0), (5, 1)])
def test_an_assignment_starts_without_usage(amount: int, missing: int) -> None:
    """A workload can have the whole quota of its queue, but not one unit more."""
    snapshot = Snapshot([cpu_queue("q", 4)])
    [pod_set] = assign_flavors(make_assigner(snapshot, pending_workload("new", amount))).pod_sets
    assert sum(status.missing for status in pod_set.statuses) == missing
    assert bool(pod_set.statuses) == bool(missing)


@pytest.mark.parametrize(("usage", "missing"), [({"cpu": 3}, 3), ({}, 6)])
def test_the_usage_of_a_replaced_slice_is_available(usage: dict[str, int], missing: int) -> None:
    """Flavors are compared by name, even if the names are different string objects. No usage counts as 0."""
    snapshot = Snapshot([cpu_queue("q", 4)])
    pods = PodSetAdmission("main", {"cpu": "".join(list(CPU.flavor))}, usage, 1)
    before = replace(pending_workload("before", 3), admission=Admission("q", (pods,), 0.0))
    assigner = make_assigner(snapshot, pending_workload("new", 10), replace_workload_slice=before)
    [pod_set] = assign_flavors(assigner).pod_sets
    assert [(status.reason, status.missing) for status in pod_set.statuses] == [("ExceedsMaxQuota", missing)]


@pytest.mark.parametrize(
    ("pod_set", "flavor", "known"), [("main", "a", "a"), ("main", "z", "z"), ("old", "any", "none")]
)
def test_a_slice_keeps_the_flavor_of_the_one_that_it_replaces(pod_set: str, flavor: str, known: str) -> None:
    """It gets no other flavor, although the quota suffices."""
    pods = PodSetAdmission(pod_set, {"cpu": flavor}, {"cpu": 3}, 1)
    before = replace(pending_workload("before", 3), admission=Admission("q", (pods,), 0.0))
    snapshot = Snapshot([cpu_queue("q", 4)])
    assignment = assign_flavors(make_assigner(snapshot, pending_workload("new", 4), replace_workload_slice=before))
    assert assignment.representative_mode == FlavorAssignmentMode.NO_FIT
    [status] = assignment.pod_sets[0].statuses
    assert (status.reason, status.message) == ("NoMatchingFlavor", f"the job has {known}")


def test_flavors_whose_nodes_do_not_suit_the_pods_are_skipped() -> None:
    flavors = [ResourceFlavor("old", {"type": "old"}), ResourceFlavor("new", {"type": "new"})]
    spec = two_flavors(4, 4).cluster_queues["q"].spec
    snapshot = Snapshot([spec], resource_flavors=flavors)
    selector = (Requirement("type", "In", ("new",)),)
    new = Workload("ns", "new", (PodSet(requests={"cpu": 2}, node_selector=selector),))
    assignment = assign_flavors(make_assigner(snapshot, new))
    assert flavor_names(assignment) == [{"cpu": "new"}]
    mapping = {"main": {"cpu": "".join(["n", "ew"])}}
    assert flavor_names(assign_flavors(make_assigner(snapshot, new, nomination_mapping=mapping))) == [{"cpu": "new"}]


def test_of_flavors_in_one_group_the_least_severe_reason_is_reported() -> None:
    """The flavors are alternatives: the second one is only in use by another queue of the cohort."""
    amounts = {"old": 1, "new": 4}
    flavors = [FlavorQuotas(name, (("cpu", ResourceQuota(amount)),)) for name, amount in amounts.items()]
    lent = [FlavorQuotas(name, (("cpu", ResourceQuota(0)),)) for name in amounts]
    queues = [
        ClusterQueue("q", (resource_group(*lent),), "c"),
        ClusterQueue("lender", (resource_group(*flavors),), "c"),
    ]
    snapshot = Snapshot(queues)
    snapshot.add_workload(running_workload("w", "lender", FlavorResource("new", "cpu"), 4))
    assignment = assign_flavors(make_assigner(snapshot, pending_workload("new", 2)))
    assert [status.reason for status in assignment.pod_sets[0].statuses] == ["ExceedsMaxQuota", "WaitingForQuota"]
    assert assignment.no_fit_reason == "WaitingForQuota"


def test_the_order_of_reasons() -> None:
    reasons: list[NoFitReason] = ["WaitingForQuota", "ExceedsMaxQuota", "WaitingForQuota"]
    assert (most_severe_reason(reasons), least_severe_reason(reasons)) == ("ExceedsMaxQuota", "WaitingForQuota")
    assert (most_severe_reason([]), least_severe_reason([])) == ("", "")


def amounts_by_flavor(alternatives: FlavorAlternatives | None) -> dict[str, dict[str, int]] | None:
    if alternatives is None:
        return None
    return {requests[0][0].flavor: {key.resource: amount for key, amount in requests} for requests in alternatives}


GROUPED = TopologyRequest(pod_set_group_name="together", explicit=False)


@pytest.mark.parametrize(
    ("pod_sets", "expected"),
    [
        ([PodSet(requests={"cpu": 3})], {"old": {"cpu": 3}, "new": {"cpu": 3}}),
        ([PodSet(requests={"cpu": 4})], {"old": {"cpu": 4}, "new": {"cpu": 4}}),
        ([PodSet(requests={"cpu": 5})], {"new": {"cpu": 5}}),
        ([PodSet(requests={"cpu": 9})], {}),
        ([PodSet(requests={"cpu": 1, "memory": 5})], {"new": {"cpu": 1, "memory": 5}}),
        ([PodSet(pods=2, requests={"cpu": 2, "memory": 0})], {"old": {"cpu": 4}, "new": {"cpu": 4}}),
        ([PodSet(requests={"cpu": 1, "disk": 0})], {"old": {"cpu": 1}, "new": {"cpu": 1}}),
        # a resource without quota, or no resource at all
        ([PodSet(requests={"cpu": 1, "disk": 1})], None),
        ([PodSet(requests={"disk": 0})], None),
        ([], None),
        # several resource groups
        ([PodSet(requests={"cpu": 1, "gpu": 1})], None),
        ([PodSet(requests={"gpu": 1})], {"gpus": {"gpu": 1}}),
        # pod sets that may get different flavors, or that form one group
        ([PodSet("a", requests={"cpu": 1}), PodSet("b", requests={"cpu": 1})], None),
        (
            [PodSet("a", requests={"cpu": 1}, topology=GROUPED), PodSet("b", requests={"cpu": 4}, topology=GROUPED)],
            {"new": {"cpu": 5}},
        ),
        # nodes
        ([PodSet(requests={"cpu": 1}, node_selector=(Requirement("type", "In", ("new",)),))], {"new": {"cpu": 1}}),
        # fewer pods
        ([PodSet(pods=2, requests={"cpu": 1}, min_pods=2)], {"old": {"cpu": 2}, "new": {"cpu": 2}}),
    ],
)
def test_the_flavors_that_can_ever_hold_the_whole_request(
    pod_sets: list[PodSet], expected: dict[str, dict[str, int]] | None
) -> None:
    """These are known if a single scan decides. Running workloads do not count."""
    groups = (
        resource_group(
            *(
                FlavorQuotas(name, (("cpu", ResourceQuota(amount)), ("memory", ResourceQuota(amount))))
                for name, amount in (("old", 4), ("new", 8))
            )
        ),
        resource_group(FlavorQuotas("gpus", (("gpu", ResourceQuota(2)),))),
    )
    flavors = [ResourceFlavor(name, {"type": name}) for name in ("old", "new", "gpus")]
    snapshot = Snapshot([ClusterQueue("q", groups)], resource_flavors=flavors)
    snapshot.add_workload(running_workload("w", "q", FlavorResource("new", "cpu"), 8))
    new = Workload("ns", "new", tuple(pod_sets))
    for partial in (False, True):
        settings = DEFAULT_SETTINGS._replace(partial_admission=partial)
        found = flavor_alternatives(make_assigner(snapshot, new, settings=settings))
        assert amounts_by_flavor(found) == expected


@pytest.mark.parametrize(
    ("min_pods", "partial", "admitted", "expected"),
    [
        (None, True, False, True),
        (1, True, False, False),
        (1, False, False, True),
        (2, True, False, True),
        (None, True, True, False),
        (None, False, True, False),
    ],
)
def test_a_scan_of_fewer_pods_or_of_an_admission_has_no_flavor_alternatives(
    min_pods: int | None, *, partial: bool, admitted: bool, expected: bool
) -> None:
    admission = running_workload("w", "q", CPU, 2).admission if admitted else None
    new = Workload("ns", "new", (PodSet(pods=2, requests={"cpu": 1}, min_pods=min_pods),), admission=admission)
    settings = DEFAULT_SETTINGS._replace(partial_admission=partial)
    found = flavor_alternatives(make_assigner(Snapshot([cpu_queue("q", 4)]), new, settings=settings))
    assert amounts_by_flavor(found) == ({"any": {"cpu": 2}} if expected else None)


def test_all_requests_of_a_queue_with_one_group_have_flavor_alternatives() -> None:
    new = pending_workload("new", 2)
    found = flavor_alternatives(make_assigner(two_flavors(4, 4), new))
    assert amounts_by_flavor(found) == {"old": {"cpu": 2}, "new": {"cpu": 2}}


@pytest.mark.parametrize(("usage", "more"), [({"cpu": 3}, 1), ({}, 4)])
def test_only_usage_beyond_that_of_a_replaced_slice_is_new(usage: dict[str, int], more: int) -> None:
    pods = PodSetAdmission("main", {"cpu": "any"}, usage, 1)
    before = replace(pending_workload("before", 3), admission=Admission("q", (pods,), 0.0))
    snapshot = Snapshot([cpu_queue("q", 4)])
    assignment = assign_flavors(make_assigner(snapshot, pending_workload("new", 4), replace_workload_slice=before))
    assert assignment.usage == {CPU: more}


def test_the_pod_sets_end_with_the_first_one_that_does_not_fit() -> None:
    """Its reasons are reported, but not those of flavors that another pod set did not need."""
    amounts = {"old": 1, "new": 9}
    lent = resource_group(*(FlavorQuotas(name, (("cpu", ResourceQuota(0)),)) for name in amounts))
    flavors = resource_group(*(FlavorQuotas(name, (("cpu", ResourceQuota(each)),)) for name, each in amounts.items()))
    queues = [ClusterQueue("q", (lent,), "c"), ClusterQueue("lender", (flavors,), "c")]
    snapshot = Snapshot(queues)
    snapshot.add_workload(running_workload("w", "lender", FlavorResource("new", "cpu"), 5))
    snapshot.add_workload(running_workload("x", "lender", FlavorResource("old", "cpu"), 1))
    pod_sets = (
        PodSet("fits", requests={"cpu": 4}),
        PodSet("waits", requests={"cpu": 1}),
        PodSet("never", requests={"cpu": 10}),
    )
    assignment = assign_flavors(make_assigner(snapshot, Workload("ns", "new", pod_sets)))
    assert [pod_set.name for pod_set in assignment.pod_sets] == ["fits", "waits"]
    assert assignment.no_fit_reason == "WaitingForQuota"


def test_a_pod_set_without_admission_has_no_pods() -> None:
    """The workload keeps the flavors of its admission."""
    admission = running_workload("w", "q", CPU, 2).admission
    new = Workload("ns", "w", (PodSet(requests={"cpu": 2}), PodSet("late", requests={"cpu": 1})), admission=admission)
    assignment = assign_flavors(make_assigner(Snapshot([cpu_queue("q", 0)]), new))
    assert [(pod_set.name, pod_set.pods) for pod_set in assignment.pod_sets] == [("main", 1), ("late", 0)]
    assert flavor_names(assignment) == [{"cpu": "any"}, {}]


class OneTopology(EmptyTopologySnapshot):
    """A topology for some flavors, with a placement for all pods or for none."""

    def __init__(self, *flavors: str, has_place: bool = True) -> None:
        self._flavors, self._has_place = flavors, has_place

    def has_topology(self, flavor: str) -> bool:
        return flavor in self._flavors

    def has_level(self, flavor: str, request: TopologyRequest) -> bool:
        return True

    def find_topology_assignments(
        self, workload: Workload, requests: Mapping[str, Sequence[PlacementRequest]], *, empty: bool
    ) -> TopologyAssignments | TopologyPlacementFailure:
        wanted = [(flavor, request.pod_set.name) for flavor, each in requests.items() for request in each]
        if not self._has_place:
            return TopologyPlacementFailure(wanted[0][1], wanted[0][0], "it is full")
        return {name: TopologyAssignment((flavor,), ()) for flavor, name in wanted}


@pytest.mark.parametrize(
    ("leader", "flavors"),
    [
        (None, {}),
        (TopologyRequest(PodSetTopologyRequest("host")), {}),
        (TopologyRequest(PodSetTopologyRequest("host"), "together"), {"cpu": "placed"}),
    ],
)
def test_a_leader_without_requests_gets_the_flavor_that_its_group_is_placed_in(
    leader: TopologyRequest | None, flavors: dict[str, str]
) -> None:
    """It uses no quota. Only a pod set of a group gets flavors for resources that it does not request."""
    groups = (
        resource_group(FlavorQuotas("placed", (("cpu", ResourceQuota(4)),))),
        resource_group(FlavorQuotas("elsewhere", (("licence", ResourceQuota(4)),))),
    )
    workers = PodSet(
        "workers",
        requests={"cpu": 2, "licence": 1},
        topology=TopologyRequest(PodSetTopologyRequest("host"), "together"),
        node_requests={"cpu": 2},
    )
    resource_flavors = [ResourceFlavor("placed", topology_name="hosts"), ResourceFlavor("elsewhere")]
    snapshot = Snapshot(
        [ClusterQueue("q", groups)], resource_flavors=resource_flavors, tas_snapshot=OneTopology("placed")
    )
    new = Workload("ns", "new", (PodSet("leader", topology=leader), workers))
    assignment = assign_flavors(make_assigner(snapshot, new))
    assert flavor_names(assignment)[0] == flavors
    assert {key.flavor: amount for key, amount in assignment.usage.items()} == {"placed": 2, "elsewhere": 1}


@pytest.mark.parametrize(
    ("amounts", "has_place", "names", "reason"),
    [
        ((2, 2), True, ["main", "more"], ""),
        ((9, 2), True, ["main"], "ExceedsMaxQuota"),
        ((2, 2), False, ["main", "more"], "TopologyPlacementFailed"),
    ],
)
def test_only_pods_with_quota_are_placed(
    amounts: tuple[int, int], names: list[str], reason: NoFitReason, *, has_place: bool
) -> None:
    """If there is no placement, that is the reason, although another flavor is in use."""
    group = resource_group(*(FlavorQuotas(name, (("cpu", ResourceQuota(4)),)) for name in ("used", "free")))
    snapshot = Snapshot(
        [ClusterQueue("q", (group,))],
        resource_flavors=[ResourceFlavor(name, topology_name="hosts") for name in ("used", "free")],
        tas_snapshot=OneTopology("used", "free", has_place=has_place),
    )
    snapshot.add_workload(running_workload("w", "q", FlavorResource("used", "cpu"), 4))
    request = TopologyRequest(PodSetTopologyRequest("host"))
    pod_sets = tuple(
        PodSet(name, requests={"cpu": amount}, topology=request)
        for name, amount in zip(("main", "more"), amounts, strict=True)
    )
    assignment = assign_flavors(make_assigner(snapshot, Workload("ns", "new", pod_sets)))
    assert [pod_set.name for pod_set in assignment.pod_sets] == names
    assert assignment.no_fit_reason == reason
    placed = [pod_set.topology_assignment for pod_set in assignment.pod_sets]
    assert placed == [None if reason else TopologyAssignment(("free",), ())] * len(names)
