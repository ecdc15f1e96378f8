"""Random histories of gangs: no gang is placed in part, kubelets admit every pod, and gangs that fit start.

Kubelets decide with `admission.admit` on their own states, in any order of arrival.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from support.gang_clusters import GangCluster
from support.ledger_kubelets import SHARED, pod_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.extender.objects.pod_group import PodGroup
    from zonewise_scheduler.extender.placing.placer import PodPlacement

SHAPES = [pod_shape((8, 0)), pod_shape((4, 0)), pod_shape((5, 0)), pod_shape((3, 0)), pod_shape((2, 0), (5, 0)), SHARED]
GANGS = ("a", "b", "c")


class Histories(RuleBasedStateMachine):
    """A state machine in which kube-scheduler, the binder, kubelets and users act in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: dict[str, list[PodShape]] = {}
        """Shapes of the members by gang, in the members' order."""
        self.groups: dict[str, PodGroup] = {}
        self.placements: list[PodPlacement] = []
        self.running: set[str] = set()
        self.ended: set[str] = set()
        self.lost: set[str] = set()
        """Gangs that lost a pod: one was deleted, has ended, or may have been forgotten."""

    @initialize(nodes=st.integers(1, 3), direct=st.booleans())
    def start(self, nodes: int, direct: bool) -> None:
        self.cluster = GangCluster(*[f"n{index}" for index in range(nodes)], direct_binding=direct)

    # --- users

    @rule(
        gang=st.sampled_from(GANGS),
        shapes=st.lists(st.sampled_from(SHAPES), min_size=2, max_size=5),
        extra=st.integers(0, 1),
        priority=st.integers(0, 1),
    )
    def create_gang(self, gang: str, shapes: list[PodShape], extra: int, priority: int) -> None:
        """Create a gang once; its last pod may exceed the required number."""
        if gang not in self.shapes:
            self.shapes[gang] = shapes
            self.cluster.clock.advance(1)
            self.groups[gang] = self.cluster.create_group(gang, max(len(shapes) - extra, 1))
            self.cluster.create_members(gang, shapes, priority=priority)

    @precondition(lambda self: self.waiting())
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.waiting()))
        self.cluster.delete(name)
        self.ended.add(name)
        self.lost.add(name[0])
        self.placements = [placement for placement in self.placements if placement.pod.name != name]

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        self.end_pod(data.draw(st.sampled_from(sorted(self.running))))

    def end_pod(self, name: str) -> None:
        self.running.discard(name)
        self.cluster.end(name)
        self.ended.add(name)
        self.lost.add(name[0])

    # --- schedulers

    @precondition(lambda self: self.waiting())
    @rule(data=st.data(), binds=st.booleans())
    def kube_scheduler(self, data: st.DataObject, binds: bool) -> None:
        name = data.draw(st.sampled_from(self.waiting()))
        if not binds:
            self.cluster.filter(name)
        elif self.cluster.filter_and_bind(name):
            self.placements = [placement for placement in self.placements if placement.pod.name != name]

    @rule()
    def scheduling_pass(self) -> None:
        self.placements += self.cluster.cache.place_waiting()
        self.cluster.requeue()

    @precondition(lambda self: self.placements)
    @rule(data=st.data(), result=st.sampled_from(["bound", "bound", "failed"]))
    def binder(self, data: st.DataObject, result: str) -> None:
        placement = self.placements.pop(data.draw(st.integers(0, len(self.placements) - 1)))
        if result == "bound":
            self.cluster.finish(placement)
        else:
            self.cluster.cache.end_binding(placement, result)

    @rule(seconds=st.sampled_from([1.0, 5.0, 15.0]))
    def time(self, seconds: float) -> None:
        """Advance the clock by less than any timeout after which gangs are forgotten; unit tests cover those."""
        if self.cluster.clock() < 1040:
            self.cluster.clock.advance(seconds)
        self.cluster.cache.tick()

    # --- nodes

    @precondition(lambda self: self.arriving())
    @rule(data=st.data())
    def arrive(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.arriving()))
        assert self.cluster.arrive(name), f"its kubelet rejects {name}"
        self.running.add(name)

    @rule(data=st.data())
    def report(self, data: st.DataObject) -> None:
        self.cluster.report(data.draw(st.sampled_from(sorted(self.cluster.kubelets))))

    # --- queries

    def waiting(self) -> list[str]:
        return [name for name in self.cluster.pods if name not in self.cluster.bound and name not in self.ended]

    def arriving(self) -> list[str]:
        return [name for name in self.cluster.bound if name not in self.running and name not in self.ended]

    def has_node(self, name: str) -> bool:
        """Return whether the ledger has a node for a pod that has not ended."""
        return self.cluster.cache.predicted_verdict(self.cluster.pods[name].uid) is not None

    @invariant()
    def gangs_are_whole(self) -> None:
        """While a gang has lost no pod, either none of its pods has a node, or at least the required number."""
        for gang, shapes in self.shapes.items():
            if gang in self.lost:
                continue
            with_nodes = sum(self.has_node(f"{gang}-{index}") for index in range(len(shapes)))
            assert with_nodes == 0 or with_nodes >= self.groups[gang].min_member

    def teardown(self) -> None:
        """Check that each gang that would start alone on idle nodes starts after pods end and filter calls continue."""
        if not hasattr(self, "cluster"):
            return
        self.bind(self.waiting())
        for _ in range(4 * len(self.shapes) + 4):
            self.settle()
        waiting = self.waiting()
        for gang, shapes in self.shapes.items():
            if gang not in self.lost and any(name.startswith(gang) for name in waiting):
                assert not self.starts_alone(shapes, self.groups[gang].min_member)

    def starts_alone(self, shapes: list[PodShape], min_member: int) -> bool:
        """Return whether a gang starts in a cluster of the same nodes without other pods."""
        cluster = GangCluster(*self.cluster.kubelets)
        names = cluster.create_gang("alone", shapes, min_member)
        return bool(cluster.filter(names[0]).node or cluster.run_pass())

    def bind(self, names: Sequence[str]) -> None:
        """Let kube-scheduler filter and bind pods."""
        for name in names:
            if name in self.waiting() and self.cluster.filter_and_bind(name):
                self.placements = [placement for placement in self.placements if placement.pod.name != name]

    def settle(self) -> None:
        """Let every pending step finish and every running pod end. kube-scheduler filters only requeued pods."""
        self.placements += self.cluster.cache.place_waiting()
        while self.placements:
            self.cluster.finish(self.placements.pop())
            self.placements += self.cluster.cache.place_waiting()
        self.bind(self.cluster.requeue())
        for name in self.arriving():
            assert self.cluster.arrive(name)
            self.running.add(name)
        for name in sorted(self.running):
            self.end_pod(name)
        for name in self.cluster.kubelets:
            self.cluster.report(name)
        self.cluster.clock.advance(30)
        self.cluster.cache.tick()


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
