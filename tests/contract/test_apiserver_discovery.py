"""Discovery, response formats, tokens, reviews and the official client: the embedded server matches the real one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import kubernetes
import pytest
from kubernetes.dynamic import DynamicClient

from support.api import Api
from support.apiserver import real_server
from support.clusters import GROUP, Cluster, cluster, config_map, embedded_server, pod, widget

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_sandbox.apiserver import ApiServer

__all__ = ["cluster", "embedded_server", "real_server"]

TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
PARTIAL = {"Accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"}
PARTIAL_LIST = {"Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"}


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/livez"])
def test_the_server_is_healthy(cluster: Cluster, path: str) -> None:
    answer = cluster.api.get(path)
    assert (answer.status, answer.body) == (200, "ok")


def test_the_server_reports_its_version(cluster: Cluster) -> None:
    found = cluster.api.get("/version").ok()
    assert (found["major"], found["minor"]) == ("1", "36")


def test_groups_and_versions(cluster: Cluster) -> None:
    cluster.define()
    assert cluster.api.get("/api").ok()["versions"] == ["v1"]
    groups = {group["name"]: group for group in cluster.api.get("/apis").ok()["groups"]}
    assert {"batch", "coordination.k8s.io", "apiextensions.k8s.io", GROUP} <= groups.keys()
    assert groups[GROUP] == {
        "name": GROUP,
        "versions": [{"groupVersion": f"{GROUP}/v1", "version": "v1"}],
        "preferredVersion": {"groupVersion": f"{GROUP}/v1", "version": "v1"},
    }
    found = cluster.api.get(f"/apis/{GROUP}").ok()
    assert (found["kind"], found["name"]) == ("APIGroup", GROUP)


@pytest.mark.parametrize(
    ("path", "name", "kind", "namespaced", "short"),
    [
        ("/api/v1", "pods", "Pod", True, ["po"]),
        ("/api/v1", "pods/binding", "Binding", True, None),
        ("/api/v1", "pods/status", "Pod", True, None),
        ("/api/v1", "nodes", "Node", False, ["no"]),
        ("/apis/batch/v1", "jobs", "Job", True, None),
        ("/apis/coordination.k8s.io/v1", "leases", "Lease", True, None),
        (f"/apis/{GROUP}/v1", "widgets", "Widget", True, None),
        (f"/apis/{GROUP}/v1", "widgets/status", "Widget", True, None),
    ],
)
def test_resources_of_a_version(
    cluster: Cluster, path: str, name: str, kind: str, namespaced: bool, short: list[str] | None
) -> None:
    cluster.define()
    listed = cluster.api.get(path).ok()
    assert listed["kind"] == "APIResourceList"
    found = {resource["name"]: resource for resource in listed["resources"]}[name]
    assert (found["kind"], found["namespaced"], found.get("shortNames")) == (kind, namespaced, short)
    if "/" not in name:
        assert set(found["verbs"]) >= {"create", "delete", "get", "list", "patch", "update", "watch"}


@pytest.mark.parametrize("path", ["/api/v1", "/apis/apps/v1", "/apis/batch/v1"])
def test_kubectl_get_all_finds_the_same_kinds(cluster: Cluster, embedded_server: ApiServer, path: str) -> None:
    served = {each["name"] for each in Api(embedded_server.url).get(path).ok()["resources"]}
    resources = [each for each in cluster.api.get(path).ok()["resources"] if each["name"] in served]
    found = {each["name"] for each in resources if each.get("categories") == ["all"]}
    expected = {"/api/v1": {"pods", "services"}, "/apis/batch/v1": {"jobs"}}
    assert found == expected.get(path, {"daemonsets", "deployments", "statefulsets"})


def test_kubectl_drain_finds_the_eviction(cluster: Cluster) -> None:
    """Without the group and version, `kubectl drain` deletes pods instead (kubectl pkg/drain CheckEvictionSupport)."""
    [found] = [each for each in cluster.api.get("/api/v1").ok()["resources"] if each["name"] == "pods/eviction"]
    assert (found["kind"], found["group"], found["version"]) == ("Eviction", "policy", "v1")


def test_patches_accept_the_options_of_kubectl(cluster: Cluster) -> None:
    """Without these parameters, kubectl rejects an apply unless its own validation is disabled."""
    root = cluster.api.get("/openapi/v3").ok()
    path = root["paths"]["api/v1"]["serverRelativeURL"]
    found = cluster.api.get(path).ok()["paths"]["/api/v1/namespaces/{namespace}/configmaps/{name}"]["patch"]
    assert found["x-kubernetes-group-version-kind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert {parameter["name"] for parameter in found["parameters"]} >= {"dryRun", "fieldManager", "fieldValidation"}


# --- response formats


def test_a_table_of_custom_resources(cluster: Cluster) -> None:
    cluster.define()
    cluster.api.post(cluster.widgets, widget("one", size=7)).ok()
    table = cluster.api.get(cluster.widgets, _headers=TABLE).ok()
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Size"]
    (row,) = table["rows"]
    assert row["cells"] == ["one", 7]
    assert row["object"]["kind"] == "PartialObjectMetadata"
    assert row["object"]["metadata"]["name"] == "one"


@pytest.mark.parametrize(
    ("include", "kind"), [("Object", "Pod"), ("None", None), ("Metadata", "PartialObjectMetadata")]
)
def test_a_table_includes_the_requested_part_of_objects(cluster: Cluster, include: str, kind: str | None) -> None:
    cluster.api.post(cluster.pods, pod("one")).ok()
    table = cluster.api.get(cluster.pods, includeObject=include, _headers=TABLE).ok()
    names = [column["name"] for column in table["columnDefinitions"]]
    assert names[0] == "Name"
    assert {"Status", "Age"} <= set(names)
    (row,) = table["rows"]
    assert row["cells"][names.index("Status")] == "Pending"
    found: dict[str, Any] = row.get("object") or {}
    assert found.get("kind") == kind


def test_metadata_only(cluster: Cluster) -> None:
    cluster.api.post(cluster.config_maps, config_map("one", a="1")).ok()
    found = cluster.api.get(f"{cluster.config_maps}/one", _headers=PARTIAL).ok()
    assert (found["kind"], found["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert found["metadata"]["name"] == "one"
    assert "data" not in found
    listed = cluster.api.get(cluster.config_maps, fieldSelector="metadata.name=one", _headers=PARTIAL_LIST).ok()
    assert listed["kind"] == "PartialObjectMetadataList"
    assert [item["metadata"]["name"] for item in listed["items"]] == ["one"]
    with cluster.api.watch(cluster.config_maps, fieldSelector="metadata.name=one", _headers=PARTIAL) as events:
        assert next(events)["object"]["kind"] == "PartialObjectMetadata"


# --- authentication and reviews


def test_a_wrong_token_is_unauthorized(cluster: Cluster, request: pytest.FixtureRequest) -> None:
    if not cluster.real:
        pytest.skip("this embedded server calls no admission webhook; tests/unit/kube_server has one that does")
    server = request.getfixturevalue("real_server")
    server.as_token("nonsense").get(cluster.config_maps).refused(401, "Unauthorized")


def test_a_token_review_of_an_unknown_token(cluster: Cluster) -> None:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "nonsense"}}
    answer = cluster.api.post("/apis/authentication.k8s.io/v1/tokenreviews", body)
    assert answer.status == 201
    assert not answer.ok()["status"].get("authenticated", False)
    assert answer.ok()["spec"] == {"token": "nonsense"}


@pytest.mark.parametrize("name", ["ann", "https://id.example.com#ben"])
def test_a_self_subject_review_names_the_impersonated_user(cluster: Cluster, name: str) -> None:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    own = cluster.api.post(path, body).ok()["status"]["userInfo"]
    assert own["username"] != name
    answer = cluster.api.post(path, body, _headers={"Impersonate-User": name})
    assert answer.status == 201
    assert answer.body["status"]["userInfo"] == {"username": name, "groups": ["system:authenticated"]}
    assert "spec" not in answer.body


def test_reviews_are_not_stored(cluster: Cluster) -> None:
    cluster.api.get("/apis/authentication.k8s.io/v1/tokenreviews").refused(405, "MethodNotAllowed")


def test_an_access_review_of_an_administrator(cluster: Cluster) -> None:
    spec: dict[str, Any] = {"user": "admin", "groups": ["system:masters"]}
    spec["resourceAttributes"] = {"verb": "list", "resource": "nodes"}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    made = cluster.api.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", body).ok()
    assert made["status"]["allowed"] is True
    assert made["spec"]["user"] == "admin"


# --- the official client reads what our client writes


@pytest.fixture
def official(cluster: Cluster) -> Iterator[Any]:
    """Return a client of the Kubernetes project."""
    configuration: Any = kubernetes.client.Configuration()
    configuration.host = cluster.api.url
    configuration.ssl_ca_cert = cluster.api.ca
    if cluster.api.token:
        configuration.api_key = {"authorization": f"Bearer {cluster.api.token}"}
    with kubernetes.client.ApiClient(configuration) as client:
        yield client


def test_the_typed_client_writes_and_reads(cluster: Cluster, official: Any) -> None:
    core: Any = kubernetes.client.CoreV1Api(official)
    cluster.api.post(cluster.pods, pod("one", schedulingGates=[{"name": "example.com/one"}])).ok()
    found: Any = core.read_namespaced_pod("one", cluster.namespace)
    assert found.spec.scheduling_gates[0].name == "example.com/one"
    assert found.status.conditions[0].reason == "SchedulingGated"
    assert found.metadata.creation_timestamp.tzinfo is not None
    core.patch_namespaced_pod("one", cluster.namespace, {"metadata": {"labels": {"a": "b"}}})
    listed: Any = core.list_namespaced_pod(cluster.namespace, label_selector="a=b")
    assert [item.metadata.name for item in listed.items] == ["one"]
    core.delete_namespaced_pod("one", cluster.namespace)
    with pytest.raises(kubernetes.client.ApiException, match="404"):
        core.read_namespaced_pod("one", cluster.namespace)


def test_the_typed_client_watches(cluster: Cluster, official: Any) -> None:
    core: Any = kubernetes.client.CoreV1Api(official)
    cluster.api.post(cluster.config_maps, config_map("one", a="1")).ok()
    watch: Any = kubernetes.watch.Watch()
    selector = "metadata.name=one"
    for event in watch.stream(
        core.list_namespaced_config_map, cluster.namespace, field_selector=selector, timeout_seconds=5
    ):
        if event["type"] == "ADDED":
            cluster.api.patch(f"{cluster.config_maps}/one", {"data": {"a": "2"}}).ok()
        elif event["type"] == "MODIFIED":
            assert event["object"].data == {"a": "2"}
            cluster.api.delete(f"{cluster.config_maps}/one").ok()
        elif event["type"] == "DELETED":
            watch.stop()


def test_the_typed_client_renews_a_lease(cluster: Cluster, official: Any) -> None:
    leases: Any = kubernetes.client.CoordinationV1Api(official)
    body = {"metadata": {"name": "one"}, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}}
    made: Any = leases.create_namespaced_lease(cluster.namespace, body)
    made.spec.holder_identity = "b"
    taken: Any = leases.replace_namespaced_lease("one", cluster.namespace, made)
    assert taken.spec.holder_identity == "b"
    with pytest.raises(kubernetes.client.ApiException, match="409"):
        leases.replace_namespaced_lease("one", cluster.namespace, made)


def test_the_dynamic_client_finds_and_applies_custom_resources(cluster: Cluster, official: Any) -> None:
    cluster.define()
    dynamic: Any = DynamicClient(official)
    widgets: Any = dynamic.resources.get(api_version=f"{GROUP}/v1", kind="Widget")
    assert widgets.namespaced
    made: Any = widgets.server_side_apply(
        widget("one", size=3), namespace=cluster.namespace, field_manager="alice", force_conflicts=True
    )
    assert made.spec.size == 3
    listed: Any = widgets.get(namespace=cluster.namespace)
    assert [item.metadata.name for item in listed.items] == ["one"]
    widgets.delete(name="one", namespace=cluster.namespace)


def test_no_token_is_needed_if_none_is_required(cluster: Cluster) -> None:
    if cluster.real:
        pytest.skip("the real server knows everybody, and lets the anonymous see its health only")
    Api(cluster.api.url, "any").get(cluster.config_maps).ok()
