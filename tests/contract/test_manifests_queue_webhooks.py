"""The queue's webhooks and policies on a real API server."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import yaml

from support.admission_reviews import QUEUE, job, owned_by, pod
from support.apiserver import RealServer, real_server
from support.manifests import MANIFESTS, NAMESPACE, Object, apply, combined, objects, of_kind, rendered
from support.waiting import eventually
from zonewise_common.kube.client import Client
from zonewise_common.kube.config import Config
from zonewise_scheduler.controller.jobs.registry import adapters_by_kind
from zonewise_scheduler.controller.pods.pod_names import ADMISSION_GATE, TOPOLOGY_GATE
from zonewise_scheduler.controller.webhooks.handler import WebhookHandler
from zonewise_scheduler.controller.webhooks.rules import AdmissionRules, pod_sets_reader, suspend_paths
from zonewise_scheduler.controller.webhooks.webhook_server import WebhookOptions, WebhookServer
from zonewise_scheduler.quota.api.declared_walltime import parse_walltime
from zonewise_scheduler.quota.api.submitted_by import SUBMITTED_BY_ANNOTATION

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from support.api import Api

__all__ = ["real_server"]

ACCOUNT = "zonewise-controller"
OPTIONS = WebhookOptions()
_MASTERS = {"Impersonate-Group": "system:masters"}
CONFIGURATIONS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


class Live(NamedTuple):
    """A server with the manifests, and the webhooks on this machine."""

    admin: Api
    namespace: str
    server: WebhookServer

    @property
    def jobs(self) -> str:
        return f"/apis/batch/v1/namespaces/{self.namespace}/jobs"

    def create(self, body: Object, namespace: str = "") -> Any:
        made: Object = {**body, "metadata": {**body["metadata"], "name": "", "generateName": "job-"}}
        made["spec"] = {**made["spec"]}
        if body["kind"] == "Job":
            template = made["spec"]["template"]
            made["spec"]["template"] = {**template, "spec": {**template["spec"], "restartPolicy": "Never"}}
            return self.admin.post(f"/apis/batch/v1/namespaces/{namespace or self.namespace}/jobs", made)
        return self.admin.post(f"/api/v1/namespaces/{namespace or self.namespace}/pods", made)


def _unknown(_name: str) -> None:
    """Return no observed object."""


@pytest.fixture(scope="module")
def live(real_server: RealServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Apply the manifests; the server calls the webhooks at a loopback address instead of through their Service."""
    namespace = yaml.safe_dump({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    apply(real_server, f"{namespace}---\n{rendered('queue')}")
    apply(real_server, rendered("queue/examples/default-queue"))
    _wait_for_policies(real_server.admin)
    directory = str(tmp_path_factory.mktemp("webhooks"))
    options = OPTIONS._replace(listen="127.0.0.1:0", directory=directory, names=("localhost",))
    own = real_server.new_namespace("jobs")
    token = real_server.service_account_token(NAMESPACE, ACCOUNT)
    with contextlib.closing(Client(Config.from_url(real_server.url, token, ca=real_server.ca))) as client:
        adapters = adapters_by_kind()
        paths, pod_sets = suspend_paths(adapters), pod_sets_reader(adapters)
        rules = AdmissionRules(paths, _has_default_queue, bool, pod_sets, _unknown, _unknown, bool)
        handler = WebhookHandler(rules)
        server = WebhookServer(client, handler, options, is_leader=lambda: True, clock=time.time)
        server.step()
        _call_at(real_server.admin, f"https://localhost:{server.port}")
        server.step()
        made = Live(real_server.admin, own, server)
        eventually(lambda: made.create(job("q")).body.get("spec", {}).get("suspend") is True)
        yield made
        server.__exit__(None, None, None)
        _call_nothing(real_server.admin)


def _wait_for_policies(admin: Api) -> None:
    """Wait until the server enforces the policies; the test uses kube-system, where no webhook is called."""
    body = job("q")
    body["metadata"] |= {"name": "", "generateName": "policy-"}
    body["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    jobs = "/apis/batch/v1/namespaces/kube-system/jobs"
    path = f"{jobs}/{admin.post(jobs, body).ok()['metadata']['name']}"
    unreadable = {"annotations": {"zonewise.dev/max-run-seconds": "soon"}}
    for change in ({"labels": {QUEUE: "other"}}, unreadable):
        eventually(lambda change=change: admin.patch(path, {"metadata": change}, dryRun="All").status == 422)


def _has_default_queue(namespace: str) -> bool:
    return namespace.startswith("defaulted")


def _paths() -> list[str]:
    group = "/apis/admissionregistration.k8s.io/v1"
    return [f"{group}/{kind.lower()}s/{ACCOUNT}" for kind in CONFIGURATIONS]


def _call_at(admin: Api, url: str) -> None:
    for path in _paths():
        configuration = admin.get(path).ok()
        for webhook in configuration["webhooks"]:
            called = webhook["clientConfig"].pop("service")
            webhook["clientConfig"]["url"] = f"{url}{called['path']}"
        admin.put(path, configuration).ok()


def _call_nothing(admin: Api) -> None:
    for path in _paths():
        admin.delete(path).ok()


def test_jobs_of_a_queue_are_suspended(live: Live) -> None:
    assert live.create(job("q")).ok()["spec"]["suspend"] is True
    assert "suspend" not in {name for name, value in live.create(job()).ok()["spec"].items() if value}


def test_pods_of_a_queue_are_gated(live: Live) -> None:
    made = live.create(pod("q")).ok()
    assert made["spec"]["schedulingGates"] == [{"name": ADMISSION_GATE}, {"name": TOPOLOGY_GATE}]


def test_only_a_held_pod_may_change_its_queue(live: Live) -> None:
    for body, queue in ((pod("q"), "other"), (pod("", schedulingGates=[{"name": ADMISSION_GATE}]), "q")):
        path = f"/api/v1/namespaces/{live.namespace}/pods/{live.create(body).ok()['metadata']['name']}"
        live.admin.patch(path, {"metadata": {"labels": {QUEUE: queue}}}).ok()
        live.admin.patch(path, {"spec": {"schedulingGates": None}}).ok()
        answer = live.admin.patch(path, {"metadata": {"labels": {QUEUE: "third"}}})
        assert (answer.status, "create other pods" in answer.body["message"]) == (422, True)


@pytest.mark.parametrize("value", [None, ""])
def test_a_pod_may_change_its_priority_class_but_not_remove_it(live: Live, value: str | None) -> None:
    label = "kueue.x-k8s.io/priority-class"
    made = live.create(pod("q", labels={label: "low"})).ok()
    path = f"/api/v1/namespaces/{live.namespace}/pods/{made['metadata']['name']}"
    live.admin.patch(path, {"metadata": {"labels": {label: "high"}}}).ok()
    answer = live.admin.patch(path, {"metadata": {"labels": {label: value}}})
    assert (answer.status, "cannot be removed" in answer.body["message"]) == (422, True), answer.body


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("pod-group-name", "other", "the group of a pod"),
        ("pod-group-total-count", "3", "the number of its pods"),
        ("retriable-in-group", "true", "cannot be changed from false"),
        ("retriable-in-group", None, "cannot be changed from false"),
    ],
)
def test_the_group_of_a_pod_cannot_change(live: Live, name: str, value: str | None, words: str) -> None:
    prefix = "kueue.x-k8s.io"
    group = {"pod-group-name": "g", "pod-group-total-count": "2", "retriable-in-group": "false"}
    annotations = {f"{prefix}/{key}": text for key, text in group.items()}
    made = live.create(pod("q", annotations)).ok()
    path = f"/api/v1/namespaces/{live.namespace}/pods/{made['metadata']['name']}"
    answer = live.admin.patch(path, {"metadata": {"annotations": {f"{prefix}/{name}": value}}})
    assert (answer.status, words in answer.body["message"]) == (422, True), answer.body
    live.admin.patch(path, {"metadata": {"annotations": {"mine": "yes"}}}).ok()


def test_kueue_may_add_the_group_of_the_pods_of_a_set(live: Live) -> None:
    """Kueue's reconcilers of LeaderWorkerSets and StatefulSets do so after the creation of each pod."""
    set_pod = pod(
        "", {"kueue.x-k8s.io/pod-suspending-parent": "statefulset"}, schedulingGates=[{"name": ADMISSION_GATE}]
    )
    path = f"/api/v1/namespaces/{live.namespace}/pods/{live.create(set_pod).ok()['metadata']['name']}"
    group = {"kueue.x-k8s.io/pod-group-name": "g", "kueue.x-k8s.io/pod-group-total-count": "2"}
    live.admin.patch(path, {"metadata": {"labels": {QUEUE: "q"}, "annotations": group}}).ok()
    answer = live.admin.patch(path, {"metadata": {"annotations": {"kueue.x-k8s.io/pod-group-name": "other"}}})
    assert answer.status == 422


def test_pods_without_a_queue_are_queued_only_with_the_component(live: Live, real_server: RealServer) -> None:
    """Those of DaemonSets are exempt. If no webhook is served, all of them run."""
    namespace = real_server.new_namespace("defaulted")
    of_node = owned_by(pod(""), "apps/v1", "DaemonSet")

    def is_gated(body: Object) -> bool:
        return bool(live.create(body, namespace).ok()["spec"].get("schedulingGates"))

    assert not is_gated(pod(""))
    with _with_component(live.admin, "queue/components/pods-without-queue"):
        eventually(lambda: is_gated(pod("")))
        assert not is_gated(of_node)
        with _no_webhook_served(live):
            eventually(lambda: not is_gated(pod("")))


def test_pods_of_a_set_from_kueue_are_queued_with_it_only_with_the_component(
    live: Live, real_server: RealServer
) -> None:
    namespace = real_server.new_namespace("defaulted")

    def is_gated(parent: str) -> bool:
        body = pod("", {"kueue.x-k8s.io/pod-suspending-parent": parent})
        return bool(live.create(body, namespace).ok()["spec"].get("schedulingGates"))

    assert not is_gated("statefulset")
    with _with_component(live.admin, "queue/components/sets-from-kueue"):
        eventually(lambda: is_gated("statefulset"))
        assert not is_gated("other")


@contextlib.contextmanager
def _with_component(admin: Api, component: str) -> Generator[None]:
    """Add the mutating webhooks of a component, at the address of the others."""
    [path, _] = _paths()
    before: list[Object] = admin.get(path).ok()["webhooks"]
    [configuration] = of_kind(combined("queue", component), CONFIGURATIONS[0])
    added = [{**webhook, "clientConfig": before[0]["clientConfig"]} for webhook in configuration["webhooks"]]
    admin.put(path, {**admin.get(path).ok(), "webhooks": added}).ok()
    try:
        yield
    finally:
        admin.put(path, {**admin.get(path).ok(), "webhooks": before}).ok()


def test_a_job_names_the_user_who_created_it(live: Live) -> None:
    """The user cannot choose the name, and replacing the whole object does not remove it."""
    made = live.create(job("q", {SUBMITTED_BY_ANNOTATION: "ben"})).ok()
    path = f"{live.jobs}/{made['metadata']['name']}"
    user = made["metadata"]["annotations"][SUBMITTED_BY_ANNOTATION]
    assert user not in {"", "ben"}
    for name in ("ben", None):
        changed = live.admin.patch(path, {"metadata": {"annotations": {SUBMITTED_BY_ANNOTATION: name}}}).ok()
        assert changed["metadata"]["annotations"][SUBMITTED_BY_ANNOTATION] == user
    body = job("q")
    body["metadata"] = {"generateName": "job-", "labels": {QUEUE: "q"}}
    body["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    made = live.admin.post(live.jobs, body, _headers={"Impersonate-User": "ann", **_MASTERS}).ok()
    assert made["metadata"]["annotations"][SUBMITTED_BY_ANNOTATION] == "ann"


def test_the_user_of_a_job_or_pod_cannot_change_while_no_webhook_is_served(live: Live) -> None:
    paths = [
        f"{live.jobs}/{live.create(job('q')).ok()['metadata']['name']}",
        f"/api/v1/namespaces/{live.namespace}/pods/{live.create(pod('q')).ok()['metadata']['name']}",
    ]
    with _no_webhook_served(live):
        for path in paths:
            for name in ("ben", None):
                answer = live.admin.patch(path, {"metadata": {"annotations": {SUBMITTED_BY_ANNOTATION: name}}})
                assert (answer.status, "submitted-by cannot be changed" in answer.body["message"]) == (422, True)


def test_invalid_jobs_are_rejected(live: Live) -> None:
    answer = live.create(job("q", {"zonewise.dev/max-run-seconds": "-5"}))
    assert "metadata.annotations[zonewise.dev/max-run-seconds]: '-5'" in answer.body["message"]
    assert answer.status == 422


def test_queues_that_contradict_themselves_are_rejected(live: Live) -> None:
    [queue] = of_kind(objects("queue/examples/default-queue"), "ClusterQueue")
    queue["metadata"]["name"] = "twice"
    queue["spec"]["resourceGroups"] *= 2
    answer = live.admin.post("/apis/kueue.x-k8s.io/v1beta2/clusterqueues", queue)
    assert "keep it in one" in answer.body["message"]


def test_the_policy_holds_while_no_webhook_is_served(live: Live) -> None:
    """Without the webhooks, updates succeed, except of fields with which a running job was admitted."""
    made = live.create(job("q", {"kueue.x-k8s.io/job-min-parallelism": "2"})).ok()
    path = f"{live.jobs}/{made['metadata']['name']}"
    with _no_webhook_served(live):
        started = live.admin.patch(path, {"spec": {"suspend": False}}).ok()
        assert started["spec"]["suspend"] is False
        refused: list[tuple[Object, str]] = [
            ({"metadata": {"labels": {QUEUE: "other"}}}, "queue-name cannot be changed"),
            ({"metadata": {"labels": {QUEUE: None}}}, "queue-name cannot be changed"),
            ({"metadata": {"annotations": {"zonewise.dev/max-run-seconds": "9"}}}, "max-run-seconds cannot be changed"),
            ({"spec": {"parallelism": 3}}, "spec.parallelism"),
        ]
        for patch, words in refused:
            answer = live.admin.patch(path, patch)
            assert (answer.status, words in answer.body.get("message", "")) == (422, True), (patch, answer.body)
        live.admin.patch(path, {"metadata": {"labels": {"mine": "yes"}}}).ok()
        live.admin.patch(path, {"spec": {"suspend": True}, "metadata": {"labels": {QUEUE: "other"}}}).ok()


def test_the_cluster_is_not_locked_out_while_no_webhook_is_served(live: Live) -> None:
    """Only objects with a queue wait, except in the namespaces of the cluster and of the controller itself."""
    for namespace in ("kube-system", NAMESPACE):
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        live.admin.post(path, {"metadata": {"name": "default"}})  # no controller manager creates it here
    with _no_webhook_served(live):
        eventually(lambda: live.create(job("q")).status == 500)
        assert live.create(pod("q")).status == 500
        for body in (job(), pod("")):
            live.create(body).ok()
        for namespace in ("kube-system", NAMESPACE):
            for body in (job(), job("q"), pod(""), pod("q")):
                live.create(body, namespace).ok()
        deployment = live.admin.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{ACCOUNT}").ok()
        template = deployment["spec"]["template"]
        own = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "own", "labels": template["metadata"]["labels"]}}
        live.create({**own, "spec": template["spec"]}, NAMESPACE).ok()


@pytest.mark.parametrize("text", ["-5", "0", "0h0m", "", "5 minutes", "1h2", "1.5", "90M", "1" * 17])
def test_unreadable_walltimes_are_rejected_while_no_webhook_is_served(live: Live, text: str) -> None:
    """Since new jobs are rejected anyway, the test uses updates, and creations in kube-system."""
    made = live.create(job("q")).ok()
    annotations = {"metadata": {"annotations": {"zonewise.dev/max-run-seconds": text}}}
    with _no_webhook_served(live):
        answers = [
            live.admin.patch(f"{live.jobs}/{made['metadata']['name']}", annotations),
            live.create(job("q", annotations["metadata"]["annotations"]), "kube-system"),
        ]
    for answer in answers:
        words = f"metadata.annotations[zonewise.dev/max-run-seconds]: '{text}' must be above 0"
        assert words in answer.body["message"]
        assert answer.status == 422


@pytest.mark.parametrize("text", ["1", "90m", "1d12h", "0h1m", "3600s", "0001"])
def test_the_policy_accepts_each_form_of_a_walltime(live: Live, text: str) -> None:
    live.create(job("q", {"zonewise.dev/max-run-seconds": text})).ok()
    assert parse_walltime(text) > 0


@pytest.mark.parametrize("text", ["0", "00", "1h", "12345678901"])
def test_the_policy_reads_the_label_of_kueue_too(live: Live, text: str) -> None:
    answer = live.create(job("q", labels={"kueue.x-k8s.io/max-exec-time-seconds": text}), "kube-system")
    words = f"metadata.labels[kueue.x-k8s.io/max-exec-time-seconds]: '{text}' must be whole seconds above 0"
    assert words in answer.body["message"]


def test_the_policy_ignores_walltimes_that_were_declared_earlier(live: Live) -> None:
    """If a job declared an unreadable walltime before the policy was applied, its other fields can still be changed."""
    made = live.create(job(annotations={"zonewise.dev/max-run-seconds": "soon"}, suspend=True)).ok()
    path = f"{live.jobs}/{made['metadata']['name']}"
    with _no_webhook_served(live):
        eventually(lambda: live.admin.patch(path, {"metadata": {"labels": {QUEUE: "q"}}}).status == 200)


@contextlib.contextmanager
def _no_webhook_served(live: Live) -> Generator[None]:
    _point_nowhere(live.admin)
    try:
        yield
    finally:
        _call_at_again(live)


def _point_nowhere(admin: Api) -> None:
    for path in _paths():
        configuration = admin.get(path).ok()
        for webhook in configuration["webhooks"]:
            webhook["clientConfig"]["url"] = "https://localhost:1/none"
        admin.put(path, configuration).ok()


def _call_at_again(live: Live) -> None:
    for path in _paths():
        configuration = live.admin.get(path).ok()
        for webhook in configuration["webhooks"]:
            place = "default" if "mutating" in path else "validate"
            webhook["clientConfig"]["url"] = f"https://localhost:{live.server.port}/{place}"
        live.admin.put(path, configuration).ok()


def test_examples_are_valid(live: Live) -> None:
    """The server and the webhooks accept the example Job."""
    example = yaml.safe_load((MANIFESTS / "queue" / "examples" / "job.yaml").read_text())
    example["metadata"]["namespace"] = live.namespace
    assert live.admin.post(live.jobs, example, fieldValidation="Strict").ok()["spec"]["suspend"] is True
