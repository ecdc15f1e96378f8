"""The queue's manifests: rights, names, and webhooks that do not lock out the cluster."""

from __future__ import annotations

from unittest.mock import create_autospec

from support.admission_reviews import QUEUE
from support.manifests import NAMESPACE, Object, combined, objects, of_kind, rights
from zonewise_common.service.authorizer import REVIEWED_PREFIX
from zonewise_scheduler.client.cluster.read_api import SERVICE, TLS_PORT
from zonewise_scheduler.client.cluster.viewer_token import ACCOUNT as VIEWER
from zonewise_scheduler.controller.election import LEASE
from zonewise_scheduler.controller.jobs.registry import discover_adapters
from zonewise_scheduler.controller.kueue.kueue_lease import DEFAULT_LEASE
from zonewise_scheduler.controller.planning.checkpoint_object import NAME as CHECKPOINT
from zonewise_scheduler.controller.watched_kinds import watched_kinds
from zonewise_scheduler.controller.webhooks.webhook_server import WebhookOptions
from zonewise_scheduler.controller.writing.group_status_writer import GroupStatusWriter
from zonewise_scheduler.quota.api.amount import UNLIMITED
from zonewise_scheduler.quota.api.queue_reader import read_cluster_queue, read_resource_flavor
from zonewise_scheduler.quota.api.resource_quota import resource_quotas

ACCOUNT = "zonewise-controller"
OPTIONS = WebhookOptions()
WRITTEN = {"/secrets", "/configmaps", "coordination.k8s.io/leases"}
CONFIGURATIONS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def made() -> list[Object]:
    return objects("queue")


def webhooks() -> list[Object]:
    return [webhook for kind in CONFIGURATIONS for one in of_kind(made(), kind) for webhook in one["webhooks"]]


# --- rights


def test_the_controller_reads_only_its_own_secret() -> None:
    """Rights to Secrets, ConfigMaps and leases cover its own names and namespace; it also reads Kueue's Lease."""
    [role] = [role for role in of_kind(made(), "ClusterRole") if role["metadata"]["name"] == ACCOUNT]
    [kueue] = [rule for rule in role["rules"] if "leases" in rule["resources"]]
    assert (kueue["resourceNames"], kueue["verbs"]) == ([DEFAULT_LEASE.partition("/")[2]], ["get"])
    found = {right for right in rights(made(), ACCOUNT) if right[1] in WRITTEN} - {
        ("get", "coordination.k8s.io/leases", "*")
    }
    assert {namespace for _, _, namespace in found} == {NAMESPACE}
    assert {verb for verb, kind, _ in found if kind == "/secrets"} == {"get", "update"}
    for role in [role for role in of_kind(made(), "Role") if role["metadata"]["name"] == ACCOUNT]:
        named = [rule.get("resourceNames") for rule in role["rules"] if rule["verbs"] != ["create"]]
        assert named == [[LEASE], [CHECKPOINT], [OPTIONS.secret]]


def test_a_viewer_reads_only_the_read_api() -> None:
    """The account has no rights to resources. A user may request its tokens, and reach one port of the controller."""
    assert rights(made(), VIEWER) == {("get", f"{REVIEWED_PREFIX}/api/*", "*")}
    [user] = [role for role in of_kind(made(), "Role") if role["metadata"]["name"] == "zonewise-user"]
    named = {(verb, each, name) for rule in user["rules"] for verb in rule["verbs"] for each in rule["resources"]
             for name in rule["resourceNames"]}  # fmt: skip
    assert named == {
        ("get", "services/proxy", f"https:{SERVICE}:{TLS_PORT}"),
        ("create", "serviceaccounts/token", VIEWER),
    }


def test_the_controller_changes_no_queue() -> None:
    """Administrators own the queues; the controller writes their status, and Workloads."""
    found = {(verb, kind) for verb, kind, _ in rights(made(), ACCOUNT) if kind.startswith("kueue.x-k8s.io/")}
    written = {kind.removeprefix("kueue.x-k8s.io/") for verb, kind in found if verb not in {"get", "list", "watch"}}
    assert {kind for kind in written if not kind.endswith("/status")} == {"workloads"}


def test_the_controller_may_run_each_kind_of_job() -> None:
    """The controller may watch, start and stop the kind of each adapter."""
    found = rights(made(), ACCOUNT)
    for adapter in discover_adapters():
        kind = f"{adapter.resource.group}/{adapter.resource.plural}"
        assert {(verb, kind, "*") for verb in ("get", "list", "watch", "patch")} <= found


def test_the_controller_has_the_rights_for_its_watches() -> None:
    found = rights(made(), ACCOUNT)
    kinds = watched_kinds(discover_adapters(), lambda _: None, create_autospec(GroupStatusWriter), ())
    for watched in (*kinds.required, *kinds.optional):
        kind = f"{watched.resource.group}/{watched.resource.plural}"
        assert {(verb, kind, "*") for verb in ("list", "watch")} <= found


def test_the_controller_may_request_nodes_from_the_cluster_autoscaler() -> None:
    """It creates requests and their PodTemplates, which are deleted with the objects that own them."""
    found = {(verb, kind) for verb, kind, _ in rights(made(), ACCOUNT)}
    request, template = ("autoscaling.x-k8s.io/provisioningrequests", "/podtemplates")
    assert {verb for verb, kind in found if kind == request} == {"list", "watch", "create", "delete"}
    assert {verb for verb, kind in found if kind == template} == {"list", "watch", "create", "patch", "delete"}
    assert ("patch", "kueue.x-k8s.io/admissionchecks/status") in found


def test_the_controller_may_bind_pods_only_with_the_component() -> None:
    with_component = combined("queue", "queue/components/bind")
    assert rights(with_component, ACCOUNT) - rights(made(), ACCOUNT) == {("create", "/pods/binding", "*")}


def test_the_controller_changes_only_its_own_webhook_configurations() -> None:
    [role] = [role for role in of_kind(made(), "ClusterRole") if role["metadata"]["name"] == ACCOUNT]
    [rule] = [rule for rule in role["rules"] if rule["apiGroups"] == ["admissionregistration.k8s.io"]]
    assert rule["resourceNames"] == [OPTIONS.configuration]
    assert rule["verbs"] == ["get", "patch"]
    assert {one["metadata"]["name"] for kind in CONFIGURATIONS for one in of_kind(made(), kind)} == {ACCOUNT}


# --- no lockout


def test_only_new_jobs_of_a_queue_can_be_stopped() -> None:
    """A failing webhook rejects only creations with the label, outside kube-system and its own namespace."""
    for webhook in webhooks():
        assert webhook["timeoutSeconds"] == 5
        if webhook["failurePolicy"] == "Ignore":
            continue
        assert {verb for rule in webhook["rules"] for verb in rule["operations"]} == {"CREATE"}
        assert webhook["objectSelector"] == {"matchExpressions": [{"key": QUEUE, "operator": "Exists"}]}
        [excluded] = webhook["namespaceSelector"]["matchExpressions"]
        assert excluded["operator"] == "NotIn"
        assert set(excluded["values"]) == {"kube-system", NAMESPACE}


def test_no_webhook_matches_vital_kinds() -> None:
    """No webhook matches nodes, leases, Secrets or workloads of other groups."""
    found = {f"{group}/{kind}" for one in webhooks() for rule in one["rules"] for group in rule["apiGroups"]
             for kind in rule["resources"]}  # fmt: skip
    assert {kind for kind in found if kind.startswith("/")} == {"/pods"}
    assert not any("*" in kind for kind in found)


def test_names_agree() -> None:
    """The program's defaults are the names, ports and paths of the manifests."""
    [service] = [one for one in of_kind(made(), "Service") if one["metadata"]["name"] == OPTIONS.service]
    assert {webhook["clientConfig"]["service"]["name"] for webhook in webhooks()} == {service["metadata"]["name"]}
    [deployment] = of_kind(made(), "Deployment")
    assert deployment["spec"]["replicas"] == 2
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert OPTIONS.listen == f":{ports['webhooks']}"
    assert OPTIONS.directory in {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
    [secret] = of_kind(made(), "Secret")
    assert secret["metadata"]["name"] == OPTIONS.secret
    assert "data" not in secret


# --- the default queue


def test_the_default_queue_uses_all_nodes() -> None:
    """Its quotas never limit jobs, and its objects have no problems."""
    queues = objects("queue/examples/default-queue")
    [queue], [flavor] = of_kind(queues, "ClusterQueue"), of_kind(queues, "ResourceFlavor")
    value, problems = read_cluster_queue(queue)
    assert problems == ()
    assert {quota.nominal for _, quota in resource_quotas(value.resource_groups)} == {UNLIMITED}
    assert read_resource_flavor(flavor)[1] == ()
