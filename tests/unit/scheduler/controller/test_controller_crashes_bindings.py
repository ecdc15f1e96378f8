"""The controller is killed after every single write of a scenario in which it binds the pods of Jobs.

No pod may be bound to a node other than its own or beyond the capacity of the node, and none may be forgotten.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from support.controller_stories import ControllerStory, annotate_first, kills
from support.live_queue import LiveQueue
from support.placed_cluster import NODE_CPUS, PlacedCluster
from zonewise_scheduler.controller.workloads.conditions import is_true
from zonewise_scheduler.controller.writing.outcome import Outcome
from zonewise_scheduler.quota.topology.assignment_reader import read_topology_assignment

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_scheduler.controller.types import ObjectKey, Write

Json = dict[str, Any]

PREEMPTING: Json = {"preemption": {"withinClusterQueue": "LowerPriority"}}


class BindingStory(ControllerStory):
    """A scenario on nodes."""

    cluster: PlacedCluster

    def check(self) -> None:
        """Check the nodes as well."""
        super().check()
        assert max(self.cluster.used_cpus().values(), default=0) <= NODE_CPUS

    def runs_on_its_nodes(self, job: ObjectKey) -> bool:
        """Return whether the pods of a Job are bound according to the placement of its Workload."""
        (workload,) = (
            obj for obj in self.cluster.workloads() if obj["metadata"]["ownerReferences"][0]["name"] == job.name
        )
        (pod_set,) = workload["status"]["admission"]["podSetAssignments"]
        placed = read_topology_assignment(pod_set["topologyAssignment"])
        return Counter(self.cluster.nodes_of(job)) == {domain.values[-1]: domain.pods for domain in placed.domains}


def bind_one_after_another(story: BindingStory) -> None:
    """The second Job needs the capacity of the first, and a third fits beside it."""
    first, second, third = (story.cluster.submit(f"j{i}", 2, pods=pods, at=i) for i, pods in enumerate((3, 2, 1)))
    story.settle()
    assert story.runs_on_its_nodes(first)
    for ended, job in ((first, second), (second, third)):
        story.cluster.complete(ended)
        story.settle()
        assert story.runs_on_its_nodes(job)
    story.cluster.complete(third)
    story.settle()
    assert all(is_true(obj, "Finished") for obj in story.cluster.workloads())
    assert story.cluster.starts == {"j0": 1, "j1": 1, "j2": 1}


def bind_again_after_a_preemption(story: BindingStory) -> None:
    """After its second start, the preempted Job has new pods."""
    low = story.cluster.submit("low", 2, pods=4, priority="low")
    story.settle()
    before = {key: story.cluster.get(key)["metadata"]["uid"] for key in story.cluster.pods(low)}
    assert Counter(story.cluster.nodes_of(low)) == {"n0": 2, "n1": 2}
    high = story.cluster.submit("high", 3, pods=2, priority="high", at=5)
    story.settle()
    assert Counter(story.cluster.nodes_of(high)) == {"n0": 1, "n1": 1}
    assert not story.cluster.pods(low)
    story.cluster.complete(high)
    story.settle()
    assert Counter(story.cluster.nodes_of(low)) == {"n0": 2, "n1": 2}
    assert not set(before.values()) & {story.cluster.get(key)["metadata"]["uid"] for key in story.cluster.pods(low)}


def bind_where_pods_have_ended(story: BindingStory) -> None:
    """The pods of a Job end before its status shows it; meanwhile, the next Job gets their nodes."""
    first, second = (story.cluster.submit(f"j{i}", 2, pods=4, at=i) for i in range(2))
    story.settle()
    assert story.runs_on_its_nodes(first)
    story.cluster.end_pods(first)
    story.settle()
    assert story.runs_on_its_nodes(second)
    story.cluster.complete(first)
    story.settle()
    assert story.cluster.starts == {"j0": 1, "j1": 1}


STORIES: dict[str, tuple[Callable[[BindingStory], None], Json]] = {
    "one after another": (bind_one_after_another, {}),
    "preemption": (bind_again_after_a_preemption, PREEMPTING),
    "pods end first": (bind_where_pods_have_ended, {}),
}


@pytest.mark.parametrize("name", STORIES)
def test_all_pods_are_bound_wherever_the_controller_is_killed(name: str) -> None:
    play, spec = STORIES[name]
    for writes in kills(play, lambda: PlacedCluster(**spec), BindingStory):
        play(BindingStory(PlacedCluster(**spec), writes))


@pytest.mark.parametrize("name", STORIES)
def test_two_leaders_bind_each_pod_once(name: str) -> None:
    """One of the two Bindings fails."""
    play, spec = STORIES[name]
    play(BindingStory(PlacedCluster(**spec), None, leaders=2))


@pytest.mark.parametrize("name", STORIES)
def test_user_edits_before_each_write_only_delay_bindings(name: str) -> None:
    play, spec = STORIES[name]
    play(BindingStory(PlacedCluster(**spec), before_write=annotate_first()))


@pytest.mark.parametrize("purpose", ["create the Workload", "start", "ungate", "bind"])
def test_a_replica_that_leads_again_repeats_writes_that_failed_in_the_meantime(purpose: str) -> None:
    """The writer sends nothing while another replica leads, and the objects have not changed since."""
    cluster, follows = PlacedCluster(), True

    def send(write: Write) -> Outcome:
        return Outcome("stale") if follows and write.purpose == purpose else cluster.send(write)

    queue = LiveQueue(cluster.listed, send, now=lambda: 1_800_000_000.0, nodes=cluster.node_feed())
    job = cluster.submit("j", 1, pods=2)
    queue.settle(cluster.sync_jobs)
    assert not any(cluster.nodes_of(job))
    follows = False
    queue.settle(cluster.sync_jobs)
    assert not any(cluster.nodes_of(job))
    for leads in (False, True):
        queue.controller.lead(leads)
    queue.settle(cluster.sync_jobs)
    assert all(cluster.nodes_of(job))
    assert len(cluster.nodes_of(job)) == 2
