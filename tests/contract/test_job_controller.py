"""The Job controller: the sandbox's on the embedded API server behaves like the real one on a real API server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.api import Api, Json
from support.clusters import Cluster, pod
from support.controller_manager import real_job_server
from support.waiting import eventually
from zonewise_sandbox.apiserver import ApiServer
from zonewise_sandbox.jobcontroller import JobController

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.apiserver import RealServer

__all__ = ["real_job_server"]

FINALIZER = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"


@pytest.fixture(scope="module")
def real_jobs(real_job_server: RealServer) -> Api:
    return real_job_server.admin


@pytest.fixture(scope="module")
def simulated_jobs() -> Iterator[Api]:
    with ApiServer() as server, JobController(server.client_config()):
        yield Api(server.url)


@pytest.fixture(params=["simulated", "real"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    return Cluster(request.getfixturevalue(f"{request.param}_jobs"), real=request.param == "real")


def job(name: str = "one", grace: int = 0, **spec: Any) -> Json:
    template = {"spec": {**pod("x")["spec"], "restartPolicy": "Never", "terminationGracePeriodSeconds": grace}}
    return {"metadata": {"name": name}, "spec": {"template": template, **spec}}


def create(cluster: Cluster, **spec: Any) -> None:
    cluster.api.post(cluster.jobs, job(**spec)).ok()


def pods(cluster: Cluster) -> list[Json]:
    items = cluster.api.get(cluster.pods).ok()["items"]
    return sorted(items, key=lambda one: one["metadata"].get("annotations", {}).get(INDEX, one["metadata"]["name"]))


def live(cluster: Cluster) -> list[Json]:
    return [
        one for one in pods(cluster)
        if "deletionTimestamp" not in one["metadata"] and one["status"].get("phase") not in {"Succeeded", "Failed"}
    ]  # fmt: skip


def status(cluster: Cluster, name: str = "one") -> Json:
    return cluster.api.get(f"{cluster.jobs}/{name}").ok()["status"]


def conditions(cluster: Cluster) -> dict[str, tuple[str, str]]:
    return {item["type"]: (item["status"], item.get("reason", "")) for item in status(cluster).get("conditions", [])}


def end(cluster: Cluster, one: Json, phase: str = "Succeeded", code: int = 0) -> None:
    """End a pod as its kubelet would."""
    container = {"name": "main", "state": {"terminated": {"exitCode": code, "finishedAt": "2026-01-01T00:00:00Z"}}}
    body = {"status": {"phase": phase, "containerStatuses": [{**container, "ready": False, "restartCount": 0,
                                                              "image": "i", "imageID": ""}]}}  # fmt: skip
    cluster.api.patch(f"{cluster.pods}/{one['metadata']['name']}/status", body).ok()


def wait_live(cluster: Cluster, count: int) -> list[Json]:
    eventually(lambda: len(live(cluster)) == count)
    return live(cluster)


# --- pods


def test_pods_are_labelled_owned_and_tracked(cluster: Cluster) -> None:
    create(cluster, parallelism=2, completions=2)
    made = cluster.api.get(f"{cluster.jobs}/one").ok()
    for one in wait_live(cluster, 2):
        meta = one["metadata"]
        assert meta["generateName"] == "one-"
        assert meta["name"].startswith("one-")
        assert FINALIZER in meta["finalizers"]
        assert meta["labels"]["batch.kubernetes.io/job-name"] == "one"
        assert meta["labels"]["batch.kubernetes.io/controller-uid"] == made["metadata"]["uid"]
        assert meta["ownerReferences"] == [
            {"apiVersion": "batch/v1", "kind": "Job", "name": "one", "uid": made["metadata"]["uid"],
             "controller": True, "blockOwnerDeletion": True}
        ]  # fmt: skip
    eventually(lambda: status(cluster).get("active") == 2)
    found = status(cluster)
    assert found.items() >= {"ready": 0, "terminating": 0, "uncountedTerminatedPods": {}}.items()
    assert "startTime" in found


def test_pods_of_an_indexed_job_know_their_index(cluster: Cluster) -> None:
    create(cluster, parallelism=3, completions=3, completionMode="Indexed")
    for index, one in enumerate(wait_live(cluster, 3)):
        assert one["metadata"]["annotations"][INDEX] == str(index)
        assert one["metadata"]["labels"][INDEX] == str(index)
        assert one["metadata"]["name"].startswith(f"one-{index}-")
        assert one["spec"]["hostname"] == f"one-{index}"
        (variable,) = one["spec"]["containers"][0]["env"]
        assert variable["name"] == "JOB_COMPLETION_INDEX"
        assert variable["valueFrom"]["fieldRef"]["fieldPath"] == f"metadata.labels['{INDEX}']"


def test_no_more_pods_exist_than_completions_remain(cluster: Cluster) -> None:
    create(cluster, parallelism=2, completions=3)
    first = wait_live(cluster, 2)
    end(cluster, first[0])
    end(cluster, first[1])
    wait_live(cluster, 1)
    eventually(lambda: status(cluster).get("succeeded") == 2)


# --- the end


def test_a_job_completes(cluster: Cluster) -> None:
    create(cluster)
    end(cluster, wait_live(cluster, 1)[0])
    eventually(lambda: "Complete" in conditions(cluster))
    assert conditions(cluster) == {
        "SuccessCriteriaMet": ("True", "CompletionsReached"),
        "Complete": ("True", "CompletionsReached"),
    }
    found = status(cluster)
    assert found["succeeded"] == 1
    assert found["ready"] == found["terminating"] == 0
    assert "active" not in found
    assert "completionTime" in found
    assert all(FINALIZER not in one["metadata"].get("finalizers", []) for one in pods(cluster))


def test_indexes_complete_in_the_status(cluster: Cluster) -> None:
    create(cluster, parallelism=4, completions=4, completionMode="Indexed")
    started = wait_live(cluster, 4)
    for index in (0, 2, 3):
        end(cluster, started[index])
    eventually(lambda: status(cluster).get("completedIndexes") == "0,2,3")
    end(cluster, started[1])
    eventually(lambda: "Complete" in conditions(cluster))
    assert status(cluster)["completedIndexes"] == "0-3"


def test_a_job_fails_beyond_its_backoff_limit(cluster: Cluster) -> None:
    create(cluster, parallelism=2, completions=2, backoffLimit=0)
    end(cluster, wait_live(cluster, 2)[0], "Failed", 1)
    eventually(lambda: "Failed" in conditions(cluster))
    assert conditions(cluster) == {
        "FailureTarget": ("True", "BackoffLimitExceeded"),
        "Failed": ("True", "BackoffLimitExceeded"),
    }
    assert status(cluster)["failed"] == 2
    assert not live(cluster)


def test_a_job_fails_after_its_deadline(cluster: Cluster) -> None:
    create(cluster, activeDeadlineSeconds=1)
    eventually(lambda: "Failed" in conditions(cluster))
    assert conditions(cluster)["Failed"] == ("True", "DeadlineExceeded")


def test_a_finished_job_is_deleted_after_its_time_to_live(cluster: Cluster) -> None:
    create(cluster, ttlSecondsAfterFinished=0)
    end(cluster, wait_live(cluster, 1)[0])
    eventually(lambda: cluster.api.get(f"{cluster.jobs}/one").status == 404)


# --- policies


def rules(*items: Json) -> Json:
    return {"rules": list(items)}


def exit_codes(action: str, *codes: int) -> Json:
    return {"action": action, "onExitCodes": {"operator": "In", "values": list(codes)}}


def test_a_policy_fails_a_job_at_once(cluster: Cluster) -> None:
    create(cluster, parallelism=1, podFailurePolicy=rules(exit_codes("FailJob", 42)))
    end(cluster, wait_live(cluster, 1)[0], "Failed", 42)
    eventually(lambda: "Failed" in conditions(cluster))
    assert conditions(cluster)["FailureTarget"] == ("True", "PodFailurePolicy")
    (message,) = {item["message"] for item in status(cluster)["conditions"]}
    assert message.startswith(f"Container main for pod {cluster.namespace}/one-")
    assert message.endswith("failed with exit code 42 matching FailJob rule at index 0")


def test_an_ignored_failure_does_not_count(cluster: Cluster) -> None:
    create(cluster, backoffLimit=0, podFailurePolicy=rules(exit_codes("Ignore", 42)))
    first = wait_live(cluster, 1)[0]
    end(cluster, first, "Failed", 42)
    eventually(lambda: any(one["metadata"]["uid"] != first["metadata"]["uid"] for one in live(cluster)))
    assert "failed" not in status(cluster)


def test_failed_indexes_do_not_fail_the_job_at_once(cluster: Cluster) -> None:
    create(cluster, parallelism=2, completions=2, completionMode="Indexed", backoffLimitPerIndex=0)
    started = wait_live(cluster, 2)
    assert started[0]["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] == "0"
    end(cluster, started[0], "Failed", 1)
    eventually(lambda: status(cluster).get("failedIndexes") == "0")
    assert "Failed" not in conditions(cluster)
    end(cluster, started[1])
    eventually(lambda: "Failed" in conditions(cluster))
    assert conditions(cluster)["Failed"] == ("True", "FailedIndexes")
    assert status(cluster)["completedIndexes"] == "1"


def test_the_failures_of_an_index_are_counted_on_its_pods(cluster: Cluster) -> None:
    create(cluster, parallelism=1, completions=1, completionMode="Indexed", backoffLimitPerIndex=1)
    end(cluster, wait_live(cluster, 1)[0], "Failed", 1)
    second = wait_live(cluster, 1)[0]
    assert second["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] == "1"
    end(cluster, second, "Failed", 1)
    eventually(lambda: "Failed" in conditions(cluster))
    assert status(cluster)["failedIndexes"] == "0"


def test_a_policy_fails_an_index(cluster: Cluster) -> None:
    policy = rules(exit_codes("FailIndex", 42))
    create(
        cluster, parallelism=2, completions=2, completionMode="Indexed", backoffLimitPerIndex=3, podFailurePolicy=policy
    )
    end(cluster, wait_live(cluster, 2)[1], "Failed", 42)
    eventually(lambda: status(cluster).get("failedIndexes") == "1")
    assert len(live(cluster)) == 1


def test_a_success_policy_ends_a_job_early(cluster: Cluster) -> None:
    policy = rules({"succeededIndexes": "0"})
    create(cluster, parallelism=3, completions=3, completionMode="Indexed", successPolicy=policy)
    end(cluster, wait_live(cluster, 3)[0])
    eventually(lambda: "Complete" in conditions(cluster))
    assert conditions(cluster)["SuccessCriteriaMet"] == ("True", "SuccessPolicy")
    assert not live(cluster)


# --- suspension, scale, deletion


def test_a_job_is_created_suspended_and_resumed(cluster: Cluster) -> None:
    create(cluster, suspend=True)
    eventually(lambda: conditions(cluster) == {"Suspended": ("True", "JobSuspended")})
    assert "startTime" not in status(cluster)
    assert not pods(cluster)
    cluster.api.patch(f"{cluster.jobs}/one", {"spec": {"suspend": False}}).ok()
    wait_live(cluster, 1)
    eventually(lambda: conditions(cluster) == {"Suspended": ("False", "JobResumed")})
    assert "startTime" in status(cluster)


def test_suspension_deletes_pods_without_failures(cluster: Cluster) -> None:
    create(cluster, parallelism=2, completions=2)
    wait_live(cluster, 2)
    eventually(lambda: status(cluster).get("active") == 2)
    cluster.api.patch(f"{cluster.jobs}/one", {"spec": {"suspend": True}}).ok()
    eventually(lambda: conditions(cluster).get("Suspended") == ("True", "JobSuspended"))
    eventually(lambda: not pods(cluster))
    eventually(lambda: not status(cluster)["terminating"])
    found = status(cluster)
    assert "active" not in found
    assert "failed" not in found
    assert "startTime" not in found


def test_pods_on_nodes_terminate_in_the_status(cluster: Cluster) -> None:
    """A pod that its kubelet is still stopping is not active, and counts as terminating."""
    create(cluster, grace=600)
    one = wait_live(cluster, 1)[0]["metadata"]["name"]
    cluster.api.post(f"{cluster.pods}/{one}/binding", {"metadata": {"name": one}, "target": {"name": "node-1"}}).ok()
    cluster.api.patch(f"{cluster.jobs}/one", {"spec": {"suspend": True}}).ok()
    eventually(lambda: status(cluster).get("terminating") == 1)
    assert "active" not in status(cluster)
    cluster.api.delete(f"{cluster.pods}/{one}", {"gracePeriodSeconds": 0}).ok()
    eventually(lambda: status(cluster).get("terminating") == 0)


def test_an_elastic_job_loses_its_last_indexes(cluster: Cluster) -> None:
    create(cluster, parallelism=3, completions=3, completionMode="Indexed")
    wait_live(cluster, 3)
    cluster.api.patch(f"{cluster.jobs}/one", {"spec": {"completions": 2, "parallelism": 2}}).ok()
    remaining = wait_live(cluster, 2)
    assert [one["metadata"]["annotations"][INDEX] for one in remaining] == ["0", "1"]
    cluster.api.patch(f"{cluster.jobs}/one", {"spec": {"completions": 4, "parallelism": 4}}).ok()
    assert [one["metadata"]["annotations"][INDEX] for one in wait_live(cluster, 4)] == ["0", "1", "2", "3"]


def test_a_deleted_pod_is_replaced_and_counts_as_failed(cluster: Cluster) -> None:
    create(cluster, backoffLimitPerIndex=5, completionMode="Indexed", completions=1)
    first = wait_live(cluster, 1)[0]["metadata"]
    cluster.api.delete(f"{cluster.pods}/{first['name']}").ok()
    eventually(lambda: any(one["metadata"]["uid"] != first["uid"] for one in live(cluster)))
    eventually(lambda: status(cluster).get("failed") == 1)


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
def test_a_deleted_job_deletes_its_pods(cluster: Cluster, propagation: str) -> None:
    create(cluster, parallelism=2, completions=2)
    wait_live(cluster, 2)
    cluster.api.delete(f"{cluster.jobs}/one", {"propagationPolicy": propagation}).ok()
    eventually(lambda: cluster.api.get(f"{cluster.jobs}/one").status == 404 and not pods(cluster))


def test_a_job_in_foreground_deletion_remains_until_its_pods_have_ended(cluster: Cluster) -> None:
    create(cluster, grace=600)
    one = wait_live(cluster, 1)[0]["metadata"]["name"]
    cluster.api.post(f"{cluster.pods}/{one}/binding", {"metadata": {"name": one}, "target": {"name": "node-1"}}).ok()
    cluster.api.delete(f"{cluster.jobs}/one", {"propagationPolicy": "Foreground"}).ok()
    eventually(lambda: "deletionTimestamp" in cluster.api.get(f"{cluster.pods}/{one}").ok()["metadata"])
    assert cluster.api.get(f"{cluster.jobs}/one").ok()["metadata"]["finalizers"] == ["foregroundDeletion"]
    cluster.api.delete(f"{cluster.pods}/{one}", {"gracePeriodSeconds": 0}).ok()
    eventually(lambda: cluster.api.get(f"{cluster.jobs}/one").status == 404)


def test_a_job_deleted_without_a_policy_orphans_its_pods(cluster: Cluster) -> None:
    create(cluster)
    wait_live(cluster, 1)
    cluster.api.delete(f"{cluster.jobs}/one").ok()
    eventually(lambda: cluster.api.get(f"{cluster.jobs}/one").status == 404)
    eventually(lambda: FINALIZER not in pods(cluster)[0]["metadata"].get("finalizers", []))
    eventually(lambda: "ownerReferences" not in pods(cluster)[0]["metadata"])


def test_a_job_of_another_controller_is_ignored(cluster: Cluster) -> None:
    cluster.api.post(cluster.jobs, job("other", managedBy="example.com/other")).ok()
    create(cluster)
    wait_live(cluster, 1)
    assert status(cluster, "other") == {}
