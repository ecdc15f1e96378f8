"""The mutating webhook: which objects it holds, and which it leaves unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.admission_reviews import QUEUE, defaulted, job, owned_by, pod, problems_of, rules
from support.job_kinds import CONFIGURED
from zonewise_scheduler.controller.pods.role_hash import role_hash

if TYPE_CHECKING:
    from collections.abc import Callable

PRIORITY = "kueue.x-k8s.io/priority-class"
GATE = {"name": "kueue.x-k8s.io/admission"}
ELASTIC = "kueue.x-k8s.io/elastic-job"
DEFAULT = rules(default_queue=True)


def started_workload(**status: str) -> Any:
    """Return a Workload with quota; `status`: the statuses of its conditions, if they differ."""
    conditions = [{"type": name, "status": value} for name, value in ({"QuotaReserved": "True"} | status).items()]
    return {"metadata": {}, "status": {"conditions": conditions, "admission": {}}}


def test_a_job_of_a_queue_is_suspended() -> None:
    assert defaulted(job("q"), rules())["spec"]["suspend"] is True
    assert defaulted(job("q", suspend=False), rules())["spec"]["suspend"] is True


def test_an_elastic_job_of_a_queue_gets_the_gate_of_its_slices() -> None:
    """Other gates remain. A Job without a queue gets none, since nothing would remove it."""
    elastic, gate = {ELASTIC: "true"}, {"name": ELASTIC}
    made = defaulted(job("q", elastic), rules())
    assert made["spec"]["template"]["spec"]["schedulingGates"] == [gate]
    assert defaulted(made, rules()) == made
    gated = job("q", elastic)
    gated["spec"]["template"]["spec"]["schedulingGates"] = [GATE]
    assert defaulted(gated, rules())["spec"]["template"]["spec"]["schedulingGates"] == [GATE, gate]
    assert defaulted(job("", elastic), rules()) == job("", elastic)
    assert "schedulingGates" not in defaulted(job("q", {ELASTIC: "yes"}), rules())["spec"]["template"]["spec"]


def test_a_job_without_a_queue_is_not_changed() -> None:
    assert defaulted(job(), rules()) == job()


def test_a_job_without_a_queue_is_suspended_if_the_setting_requires_it() -> None:
    made = defaulted(job(), rules(without_name=True))
    assert made["spec"]["suspend"] is True
    assert QUEUE not in made["metadata"]["labels"]


def test_jobs_that_name_no_queue_get_the_default_queue() -> None:
    made = defaulted(job(labels={"team": "a"}), DEFAULT)
    assert made["metadata"]["labels"] == {"team": "a", QUEUE: "default"}
    assert made["spec"]["suspend"] is True
    assert defaulted(job("other"), DEFAULT)["metadata"]["labels"] == {QUEUE: "other"}


def test_a_job_without_labels_gets_the_default_queue() -> None:
    bare = job()
    del bare["metadata"]["labels"]
    assert defaulted(bare, DEFAULT)["metadata"]["labels"] == {QUEUE: "default"}


@pytest.mark.parametrize("new", [job, pod])
def test_jobs_of_a_queue_that_name_no_priority_class_get_the_default_class(new: Callable[[str], Any]) -> None:
    made, facts = new("q"), rules(default_class=True)
    assert defaulted(made, facts)["metadata"]["labels"][PRIORITY] == "default"
    made["metadata"]["labels"][PRIORITY] = "high"
    assert defaulted(made, facts)["metadata"]["labels"][PRIORITY] == "high"
    del made["metadata"]["labels"][QUEUE]
    assert defaulted(made, facts) == made


def test_the_default_class_comes_with_the_default_queue() -> None:
    made = defaulted(job(), rules(default_queue=True, default_class=True))
    assert made["metadata"]["labels"] == {QUEUE: "default", PRIORITY: "default"}


def test_the_pods_of_a_leader_worker_set_get_the_default_class() -> None:
    spec: Any = {"leaderWorkerTemplate": {"workerTemplate": {"spec": {}}}}
    made: Any = {**job("q"), "apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "spec": spec}
    labels = {QUEUE: "q", PRIORITY: "default"}
    set_ = defaulted(made, rules(default_class=True))
    assert set_["metadata"]["labels"] == labels
    assert set_["spec"]["leaderWorkerTemplate"]["workerTemplate"]["metadata"]["labels"] == labels


@pytest.mark.parametrize("owned", [job("q"), pod("q")], ids=["job", "pod"])
def test_objects_owned_by_a_job_are_not_queued_again(owned: Any) -> None:
    """A JobSet is suspended, and its child Jobs are suspended with it."""
    child = owned_by(owned, "jobset.x-k8s.io/v1alpha2", "JobSet")
    assert defaulted(child, DEFAULT) == child


@pytest.mark.parametrize("owned", [job("q"), pod("q")], ids=["job", "pod"])
def test_objects_owned_by_a_job_without_a_queue_are_queued(owned: Any) -> None:
    """They are queued only if they name a queue themselves: an owner without a queue passes on no default queue."""
    facts = rules(default_queue=True, jobs={"u-2": {"metadata": {"name": "owner"}}})
    child = owned_by(owned, "jobset.x-k8s.io/v1alpha2", "JobSet")
    held = defaulted(child, facts)["spec"]
    assert held.get("suspend") or held["schedulingGates"]
    del child["metadata"]["labels"][QUEUE]
    assert defaulted(child, facts) == child


@pytest.mark.parametrize(
    ("owner", "status", "is_queued"),
    [
        ("AppWrapper", {}, False),
        ("AppWrapper", {"Finished": "True"}, True),
        ("AppWrapper", {"QuotaReserved": "False"}, True),
        ("Pod", {}, True),
        ("", {}, True),
    ],
)
@pytest.mark.parametrize("facts", ["", "q"])
def test_the_pods_of_a_started_job_are_not_queued_again(
    owner: str, status: dict[str, str], is_queued: bool, facts: str
) -> None:
    """The start of an AppWrapper names its Workload in the template of a Deployment, whose ReplicaSet owns the pods."""
    group = {"AppWrapper": "workload.codeflare.dev/v1beta2", "Pod": "v1"}.get(owner, "")
    workloads = {"team-a/w": owned_by(started_workload(**status), group, owner)} if owner else {}
    made = owned_by(pod(facts, {"kueue.x-k8s.io/workload": "w"}), "apps/v1", "ReplicaSet")
    changed = defaulted(made, rules(default_queue=True, workloads=workloads))
    assert (GATE in changed["spec"].get("schedulingGates", ())) is is_queued


def test_a_copy_of_a_started_pod_is_queued() -> None:
    owned = owned_by(started_workload(), "workload.codeflare.dev/v1beta2", "AppWrapper")
    made = pod("q", {"kueue.x-k8s.io/workload": "w"})
    assert GATE in defaulted(made, rules(workloads={"team-a/w": owned}))["spec"]["schedulingGates"]


@pytest.mark.parametrize(
    ("api_version", "kind", "controller"),
    [("batch/v1", "CronJob", True), ("jobset.x-k8s.io/v1alpha2", "JobSet", False), ("example.com/v1", "Job", True)],
)
def test_other_owners_do_not_count(api_version: str, kind: str, controller: bool) -> None:
    child = owned_by(job("q"), api_version, kind, controller=controller)
    assert defaulted(child, rules())["spec"]["suspend"] is True


def test_training_jobs_are_held_by_their_run_policy() -> None:
    training = {**job("q"), "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "spec": {"a": 1}}
    assert defaulted(training, rules())["spec"] == {"a": 1, "runPolicy": {"suspend": True}}
    training["spec"] = {"runPolicy": {"backoffLimit": 1}}
    assert defaulted(training, rules())["spec"] == {"runPolicy": {"backoffLimit": 1, "suspend": True}}


@pytest.mark.parametrize(
    ("changes", "offset"),
    [
        ({"runLauncherAsWorker": True}, "1"),
        ({"runLauncherAsWorker": False}, None),
        ({"runLauncherAsWorker": True, "mpiReplicaSpecs": {"Worker": {}}}, None),
    ],
)
def test_the_workers_of_an_mpi_job_are_numbered_after_a_launcher_that_works(changes: Any, offset: str | None) -> None:
    """The MPI operator numbers the launcher 0 then, so the ranks of the workers would be one too high."""
    worker = {"replicas": 2, "template": {"metadata": {"annotations": {"a": "1"}}}}
    spec = {"mpiReplicaSpecs": {"Launcher": {"replicas": 1}, "Worker": worker}, **changes}
    training = {**job("q"), "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "spec": spec}
    workers = defaulted(training, rules())["spec"]["mpiReplicaSpecs"]["Worker"]
    annotations = workers.get("template", {}).get("metadata", {}).get("annotations", {})
    assert annotations.get("kueue.x-k8s.io/pod-index-offset") == offset
    assert training["spec"] == spec


def test_each_kind_is_held_by_its_own_field() -> None:
    """For a kind from the settings, it is the field that the adapter uses."""
    configured = rules(configured=[CONFIGURED])
    training = {**job("q"), "apiVersion": "example.com/v1", "kind": "Training", "spec": {"run": {"a": 1}}}
    held = defaulted(training, configured)
    assert held["spec"] == {"run": {"a": 1, "suspend": True}}
    assert CONFIGURED.is_suspended(held)
    changed = {**training, "metadata": {"labels": {QUEUE: "other"}}}
    assert "suspend it first" in problems_of(changed, training, configured)
    changed["spec"] = held["spec"]
    assert problems_of(changed, held, configured) == ""


@pytest.mark.parametrize("facts", [DEFAULT, rules(without_name=True)])
def test_a_ray_job_on_an_existing_cluster_is_held_only_if_it_names_a_queue(facts: Any) -> None:
    made = job()
    made |= {"apiVersion": "ray.io/v1", "kind": "RayJob", "spec": {"clusterSelector": {"ray.io/cluster": "c"}}}
    assert defaulted(made, facts) == made
    made["metadata"]["labels"] = {QUEUE: "q"}
    assert "clusterSelector" in problems_of(defaulted(made, facts))


def test_unknown_kinds_are_not_changed() -> None:
    other = {**job("q"), "apiVersion": "example.com/v1"}
    assert defaulted(other, DEFAULT) == other


def test_a_pod_of_a_queue_is_gated() -> None:
    made = defaulted(pod(schedulingGates=[{"name": "mine"}]), rules())
    assert made["spec"]["schedulingGates"] == [{"name": "mine"}, GATE, {"name": "kueue.x-k8s.io/topology"}]
    assert made["metadata"]["annotations"]["kueue.x-k8s.io/role-hash"] == role_hash(made["spec"])
    assert made["metadata"]["finalizers"] == ["kueue.x-k8s.io/managed"]
    assert made["metadata"]["labels"] == {QUEUE: "q", "kueue.x-k8s.io/managed": "true"}


def test_a_pod_keeps_the_role_that_it_names() -> None:
    named = pod()
    named["metadata"]["annotations"] = {"kueue.x-k8s.io/role-hash": "worker"}
    assert defaulted(named, rules())["metadata"]["annotations"] == {"kueue.x-k8s.io/role-hash": "worker"}


@pytest.mark.parametrize(("source", "rank"), [("apps.kubernetes.io/pod-index", "3"), ("missing", None), (None, None)])
def test_the_rank_of_a_pod_in_its_group_is_that_of_the_label_that_it_names(
    source: str | None, rank: str | None
) -> None:
    annotations = {} if source is None else {"kueue.x-k8s.io/pod-group-pod-index-label": source}
    made = defaulted(pod("q", annotations, {"apps.kubernetes.io/pod-index": "3"}), rules())
    assert made["metadata"]["labels"].get("kueue.x-k8s.io/pod-group-pod-index") == rank


@pytest.mark.parametrize("made", [job("q"), pod("q")], ids=["job", "pod"])
def test_it_is_idempotent(made: Any) -> None:
    once = defaulted(made, rules())
    assert defaulted(once, rules()) == once


def test_a_pod_without_a_queue_is_not_changed() -> None:
    assert defaulted(pod(""), rules()) == pod("")


@pytest.mark.parametrize("parent", ["statefulset", "leaderworkerset.x-k8s.io/leaderworkerset"])
def test_a_pod_of_a_set_from_kueue_is_gated_although_only_the_set_names_a_queue(parent: str) -> None:
    made = defaulted(pod("", {"kueue.x-k8s.io/pod-suspending-parent": parent}), DEFAULT)
    assert made["metadata"]["labels"] == {"kueue.x-k8s.io/managed": "true"}, "not the default queue"
    assert made["metadata"]["finalizers"] == ["kueue.x-k8s.io/managed"]
    assert GATE in made["spec"]["schedulingGates"]


def test_a_pod_that_names_no_queue_gets_the_default_queue() -> None:
    made = defaulted(pod(""), DEFAULT)
    assert made["metadata"]["labels"][QUEUE] == "default"
    assert made["metadata"]["finalizers"] == ["kueue.x-k8s.io/managed"]
    assert GATE in made["spec"]["schedulingGates"]


def test_a_pod_without_a_queue_is_gated_if_the_setting_requires_it() -> None:
    """It has no finalizer, since nothing would remove it."""
    made = defaulted(pod(""), rules(without_name=True))
    assert GATE in made["spec"]["schedulingGates"]
    assert made["metadata"]["labels"] == {"kueue.x-k8s.io/managed": "true"}
    assert "finalizers" not in made["metadata"]
    assert made["metadata"]["annotations"]["kueue.x-k8s.io/role-hash"] == role_hash(made["spec"])


def test_the_pods_of_a_job_without_a_queue_are_not_gated() -> None:
    """The job is held, or was started before such jobs were managed."""
    owned = owned_by(pod(""), "batch/v1", "Job")
    assert defaulted(owned, rules(without_name=True)) == owned
