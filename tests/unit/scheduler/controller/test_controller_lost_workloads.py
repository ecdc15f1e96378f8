"""Quota of deleted jobs: it is held until the last pod has ended, even by a controller that starts in the meantime.

A pod's annotation records the admission of its start. Users may write it too; it charges only their ClusterQueue.
"""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.live_queue import LiveQueue
from support.model_cluster import NAMESPACE, QUEUE_LABEL, ModelCluster
from support.queue_objects import cluster_queue_spec
from zonewise_common.kube.resources import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, NAMESPACES, PODS, WORKLOADS
from zonewise_scheduler.controller.jobs.injected import INJECTED_ANNOTATION
from zonewise_scheduler.controller.pods.pod_names import ADMISSION_ANNOTATION, LOCAL_QUEUE_LABEL
from zonewise_scheduler.controller.types import ObjectKey
from zonewise_scheduler.quota.api.resource_settings import parse_resource_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

Json = dict[str, Any]

NOW = 1_800_000_000.0


class LostJobs:
    """A cluster whose Jobs have pods on a node, and its successive controllers. The queue has 8 CPUs."""

    def __init__(self) -> None:
        self.cluster = ModelCluster()
        self.entries: list[Json] = []
        self.restart()

    def restart(self) -> None:
        """Replace the controller."""
        self.entries.clear()
        self.queue = LiveQueue(self.cluster.listed, self.cluster.send, now=lambda: NOW, record=self.entries.append)

    def settle(self) -> None:
        """Let the controller and the Job controller act until nothing changes."""
        self.queue.settle(self.cluster.sync_jobs)

    def submit(self, name: str, cpus: int, pods: int = 1) -> ObjectKey:
        """Create a Job and let everything settle."""
        job = self.cluster.submit(name, cpus, pods=pods)
        self.settle()
        return job

    def run_pods(self, job: ObjectKey) -> list[ObjectKey]:
        """Create the pods of a started Job on a node."""
        template = self.cluster.get(job)["spec"]["template"]
        return [
            self.create_pod(f"{job.name}-{i}", template) for i in range(self.cluster.get(job)["spec"]["parallelism"])
        ]

    def create_pod(self, name: str, template: Json, namespace: str = NAMESPACE) -> ObjectKey:
        """Create a pod on a node."""
        pod = copy.deepcopy(template)
        pod["spec"] |= {"nodeName": "n"}
        return self.cluster.create(PODS, namespace, name, **pod, status={"phase": "Running"})

    def is_held(self, job: ObjectKey) -> bool:
        """Return whether a Job is suspended."""
        return bool(self.cluster.get(job)["spec"]["suspend"])

    def ends(self) -> list[str]:
        """Return the workloads that were reported to the planner as ended."""
        return [entry["key"] for entry in self.entries if entry.get("entry") == "finish"]


def test_a_new_controller_holds_the_quota_of_a_deleted_job_until_its_last_pod_has_ended() -> None:
    story = LostJobs()
    deleted = story.submit("deleted", 3, pods=2)
    pods = story.run_pods(deleted)
    small, large = story.submit("small", 2), story.submit("large", 6)
    assert (story.is_held(small), story.is_held(large)) == (False, True)
    story.cluster.delete(deleted)
    assert [obj for obj in story.cluster.workloads() if "deleted" in obj["metadata"]["name"]] == []
    story.restart()
    story.settle()
    for i, pod in enumerate(pods):
        assert (story.is_held(large), usage_of(story)) == (True, 8000 - 3000 * i)
        story.cluster.change(pod, {"metadata": {"deletionTimestamp": "2027-01-15T08:00:00Z"}})
        story.settle()
        assert (story.is_held(large), usage_of(story)) == (True, 8000 - 3000 * i)
        story.cluster.delete(pod)
        story.settle()
    assert (story.is_held(large), usage_of(story)) == (False, 8000)


def test_a_new_controller_counts_the_pods_of_a_deleted_job_by_its_settings() -> None:
    resources = parse_resource_settings({"transformations": [{"input": "cpu", "outputs": {"cpu": "1"}}]})
    story = LostJobs()
    deleted = story.submit("deleted", 3)
    story.run_pods(deleted)
    story.cluster.delete(deleted)
    story.restart()
    state = story.queue.controller.feed.state
    state.settings = state.settings._replace(resources=resources)
    story.settle()
    assert usage_of(story) == 6000


def test_an_existing_workload_counts_once_besides_its_pods() -> None:
    story = LostJobs()
    running = story.submit("running", 3, pods=2)
    story.run_pods(running)
    small = story.submit("small", 2)
    story.restart()
    story.settle()
    assert not story.is_held(small)
    assert usage_of(story) == 8000
    assert story.ends() == []


def test_the_workload_itself_counts_once_it_is_observed_after_its_pods() -> None:
    """The watches of the two kinds may be at different times."""
    story = LostJobs()
    running = story.submit("running", 3, pods=2)
    story.run_pods(running)
    (workload,) = story.cluster.workloads()
    key = ObjectKey(WORKLOADS, NAMESPACE, workload["metadata"]["name"])
    story.restart()
    hidden = {running, key}
    late = LiveQueue(
        lambda: {key: obj for key, obj in story.cluster.listed().items() if key not in hidden},
        story.cluster.send,
        now=lambda: NOW,
    )
    late.step()
    (lost,) = late.controller.feed.state.running.values()
    assert lost.workload.key == key.namespaced_name
    hidden.clear()
    late.settle(story.cluster.sync_jobs)
    (run,) = late.controller.feed.state.running.values()
    assert run.workload.uid == workload["metadata"]["uid"]
    assert sum(run.workload.usage.values()) == 6000
    assert not story.is_held(running)


def test_pods_of_a_finished_workload_hold_its_quota_across_a_restart() -> None:
    """Workers may continue after their job has ended."""
    story = LostJobs()
    ended = story.submit("ended", 6)
    (worker,) = story.run_pods(ended)
    story.cluster.complete(ended)
    story.settle()
    waiting = story.submit("waiting", 6)
    assert story.is_held(waiting)
    story.restart()
    story.settle()
    assert story.is_held(waiting)
    story.cluster.change(worker, {"status": {"phase": "Succeeded"}})
    story.settle()
    assert not story.is_held(waiting)


def test_pods_hold_quota_if_their_whole_namespace_is_deleted() -> None:
    story = LostJobs()
    story.cluster.create(NAMESPACES, "", "other")
    story.cluster.create(LOCAL_QUEUES, "other", "l", spec={"clusterQueue": "q"})
    deleted = story.submit("deleted", 6)
    (pod,) = story.run_pods(deleted)
    waiting = story.cluster.create(
        JOBS,
        "other",
        "waiting",
        metadata={"labels": {QUEUE_LABEL: "l"}},
        spec={"suspend": True, "parallelism": 1, "completions": 1, "template": {"spec": template_of(cpu="6")["spec"]}},
    )
    story.settle()
    story.cluster.change(
        ObjectKey(NAMESPACES, "", NAMESPACE), {"metadata": {"deletionTimestamp": "2027-01-15T08:00:00Z"}}
    )
    for key in (deleted, ObjectKey(LOCAL_QUEUES, NAMESPACE, "l")):
        story.cluster.delete(key)
    story.restart()
    story.settle()
    assert story.is_held(waiting)
    story.cluster.delete(pod)
    story.settle()
    assert not story.is_held(waiting)


# --- annotations written by users


def noted(cluster_queue: str = "q", flavor: str = "f", **flavors: str) -> str:
    return json.dumps({"clusterQueue": cluster_queue, "count": 1, "flavors": {"cpu": flavor, **flavors}})


def template_of(text: str = "", *, queue: str = "l", flavor: str = "f", cpu: str = "8") -> Json:
    """Return the template of a pod with a user's annotations; `text` is the recorded admission."""
    annotations = {"kueue.x-k8s.io/workload": "w"} | ({ADMISSION_ANNOTATION: text} if text else {})
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {"labels": {LOCAL_QUEUE_LABEL: queue}, "annotations": annotations},
        "spec": {"nodeSelector": {"flavor": flavor}, "containers": [container]},
    }


def usage_of(story: LostJobs, queue: str = "q") -> int:
    """Return the used CPUs of a ClusterQueue, in milli-CPU."""
    return sum(story.queue.controller.feed.state.snapshot.cluster_queues[queue].usage.values())


def test_pods_charge_a_queue_with_their_requests_on_its_nodes() -> None:
    """The control of the hostile pods below: only their change makes them hold no quota."""
    story = LostJobs()
    story.create_pod("p", template_of(noted(), cpu="3"))
    story.settle()
    assert usage_of(story) == 3000


@pytest.mark.parametrize(
    ("template", "namespace"),
    [
        pytest.param(template_of(noted("foreign")), NAMESPACE, id="the queue of others"),
        pytest.param(template_of(noted(), queue="absent"), NAMESPACE, id="no LocalQueue"),
        pytest.param(template_of(noted(), queue="foreign"), NAMESPACE, id="a LocalQueue that leads elsewhere"),
        pytest.param(template_of(noted()), "elsewhere", id="another namespace"),
        pytest.param(template_of(noted(flavor="absent")), NAMESPACE, id="no flavor"),
        pytest.param(template_of(noted(), flavor="other"), NAMESPACE, id="nodes of another flavor"),
        pytest.param(template_of(noted(), cpu="9"), NAMESPACE, id="more than is available"),
        pytest.param(template_of(noted("absent")), NAMESPACE, id="no ClusterQueue"),
        *(
            pytest.param(template_of(text), NAMESPACE, id=text[:20])
            for text in (
                "",
                "{",
                "[]",
                "[" * 100_000,
                '{"clusterQueue":"q"}',
                '{"clusterQueue":5,"flavors":{"cpu":"f"}}',
            )
        ),
    ],
)
def test_an_admission_written_by_users_holds_no_quota_of_others(template: Json, namespace: str) -> None:
    story = LostJobs()
    story.cluster.create(NAMESPACES, "", "elsewhere")
    story.cluster.create(CLUSTER_QUEUES, "", "foreign", spec=cluster_queue_spec({"cpu": "8"}))
    story.cluster.create(NAMESPACES, "", "others")
    story.cluster.create(LOCAL_QUEUES, "others", "foreign", spec={"clusterQueue": "foreign"})
    story.create_pod("p", template, namespace)
    story.restart()
    story.settle()
    assert (usage_of(story), usage_of(story, "foreign")) == (0, 0)
    assert not story.is_held(story.submit("j", 8))


def test_a_pod_that_continues_holds_only_its_own_quota() -> None:
    story = LostJobs()
    large = story.create_pod("large", template_of(noted(), cpu="7"))
    story.create_pod("small", template_of(noted(), cpu="1"))
    story.settle()
    assert usage_of(story) == 8000
    story.cluster.change(large, {"status": {"phase": "Succeeded"}})
    story.settle()
    assert usage_of(story) == 1000
    story.create_pod("another", template_of(noted(), cpu="2"))
    story.settle()
    assert usage_of(story) == 3000


@pytest.mark.parametrize("change", [{"spec": {"nodeName": None}}, {"status": {"phase": "Failed"}}])
def test_pods_that_use_no_node_hold_no_quota(change: Json) -> None:
    story = LostJobs()
    story.cluster.change(story.create_pod("p", template_of(noted())), change)
    story.settle()
    assert not story.queue.controller.feed.state.running


@pytest.mark.parametrize("queue", ["", "l"], ids=["outside the queue", "in the queue"])
def test_an_admission_written_by_users_on_a_job_holds_no_quota(queue: str) -> None:
    """A running Job whose annotation claims that the queue started it. A Job of the queue is stopped."""
    story = LostJobs()
    injected = {"main": {"annotations": {"kueue.x-k8s.io/workload": "w", ADMISSION_ANNOTATION: noted()}}}
    story.cluster.create(
        JOBS,
        NAMESPACE,
        "hostile",
        metadata={"annotations": {INJECTED_ANNOTATION: json.dumps(injected)}, "labels": {QUEUE_LABEL: queue}},
        spec={"suspend": False, "parallelism": 1, "completions": 1, "template": template_of(cpu="9")},
    )
    story.cluster.sync_jobs()
    story.restart()
    story.settle()
    assert usage_of(story) == 0
    assert not story.is_held(story.submit("j", 8))


class RandomLosses(LostJobs):
    """Random histories of single-pod Jobs, some of which are lost."""

    def __init__(self, cpus: Sequence[int]) -> None:
        super().__init__()
        self.jobs = {f"j{i}": self.cluster.submit(f"j{i}", each, at=i) for i, each in enumerate(cpus)}
        self.cpus = dict(zip(self.jobs, cpus, strict=True))
        self.pods: dict[str, ObjectKey] = {}
        """By the name of their job, which may have been deleted."""
        self.run()

    def run(self) -> None:
        """Start all jobs that can start, with their pods."""
        self.settle()
        for name, job in self.jobs.items():
            if name not in self.pods and not self.is_held(job):
                (self.pods[name],) = self.run_pods(job)
        self.settle()

    def lose(self, name: str) -> None:
        """Delete a job with its Workload; its pods continue."""
        self.cluster.delete(self.jobs.pop(name))

    def end(self, name: str) -> None:
        """End the pod of a deleted job."""
        self.cluster.delete(self.pods.pop(name))

    def step(self, step: str, data: st.DataObject) -> None:
        """Make one event happen, if it is possible."""
        names = sorted(self.jobs if step == "lose" else self.pods.keys() - self.jobs.keys())
        if step == "restart":
            self.restart()
        elif names:
            (self.lose if step == "lose" else self.end)(data.draw(st.sampled_from(names)))
        self.run()

    def pod_cpus(self) -> int:
        """Return the CPUs of all pods."""
        return sum(self.cpus[name] for name in self.pods)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_quota_is_held_until_the_last_pod_has_ended_after_any_losses(data: st.DataObject) -> None:
    """Pods never exceed the quota, and once all have ended nothing is used."""
    story = RandomLosses(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    for step in data.draw(st.lists(st.sampled_from(["lose", "end", "restart"]), max_size=10)):
        story.step(step, data)
        assert story.pod_cpus() <= 8
        assert usage_of(story) == 1000 * story.pod_cpus()
    for name in sorted(story.jobs):
        story.lose(name)
    for name in sorted(story.pods):
        story.end(name)
    story.settle()
    assert usage_of(story) == 0
