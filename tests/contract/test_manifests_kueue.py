"""Kueue's kinds, as manifests/scheduler/components/kueue-crds defines them, on the real and the embedded API server.

Only the real server evaluates expressions (x-kubernetes-validations).
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import pytest
import yaml

from support.apiserver import real_server
from support.clusters import DEFINITIONS, Cluster, cluster, embedded_server
from support.manifests import MANIFESTS, Object
from support.queue_objects import resource_groups
from support.waiting import eventually

__all__ = ["cluster", "embedded_server", "real_server"]

FOLDER = MANIFESTS / "scheduler" / "components" / "kueue-crds"
GROUP = "kueue.x-k8s.io"
NOW = "2026-01-01T00:00:00Z"
RESERVED = [
    {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": "", "lastTransitionTime": NOW}
]
RESOURCES = [{"name": "cpu", "nominalQuota": 4}]
FLAVORS = [{"name": "default", "resources": RESOURCES}]
GROUPS = [{"coveredResources": ["cpu"], "flavors": FLAVORS}]
TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "none", "anything": {"kept": 1}}]}}
SPECS: dict[str, Object] = {
    "AdmissionCheck": {"controllerName": "kueue.x-k8s.io/provisioning-request"},
    "ClusterQueue": {"namespaceSelector": {}, "resourceGroups": GROUPS},
    "Cohort": {"resourceGroups": GROUPS},
    "LocalQueue": {"clusterQueue": "default"},
    "ProvisioningRequestConfig": {"provisioningClassName": "check-capacity.autoscaling.x-k8s.io"},
    "ResourceFlavor": {"nodeLabels": {"type": "large"}, "topologyName": "default"},
    "Topology": {"levels": [{"nodeLabel": "example.com/rack"}, {"nodeLabel": "kubernetes.io/hostname"}]},
    "Workload": {"podSets": [{"name": "main", "count": 2, "template": TEMPLATE}], "queueName": "default"},
}
"""A valid spec of each kind that has one."""


def definitions() -> dict[str, Object]:
    """Return the definitions by kind."""
    made = [yaml.load(file.read_text(), yaml.CSafeLoader) for file in sorted(FOLDER.glob("*.yaml"))]
    return {one["spec"]["names"]["kind"]: one for one in made if one["kind"] == "CustomResourceDefinition"}


DEFINED = definitions()
ALL_VERSIONS = [(kind, one["name"]) for kind, made in DEFINED.items() for one in made["spec"]["versions"]]


class Queues(NamedTuple):
    """A server that serves the kinds."""

    cluster: Cluster

    def path(self, kind: str, version: str = "v1beta2") -> str:
        spec = DEFINED[kind]["spec"]
        scope = f"namespaces/{self.cluster.namespace}/" if spec["scope"] == "Namespaced" else ""
        return f"/apis/{GROUP}/{version}/{scope}{spec['names']['plural']}"

    def post(self, kind: str, version: str = "v1beta2", **fields: Any) -> Any:
        body = new_object(kind, version, **fields)
        return self.cluster.api.post(self.path(kind, version), body, fieldValidation="Strict")

    def create(self, kind: str, version: str = "v1beta2", **fields: Any) -> Object:
        return self.post(kind, version, **fields).ok()

    def rejects(self, words: str, kind: str, **fields: Any) -> None:
        """Check that a creation is rejected with these words."""
        assert words in self.post(kind, **fields).refused(422, "Invalid")["message"]

    def replace(self, made: Object, **fields: Any) -> Any:
        spec = {name: part for name, part in {**made["spec"], **fields}.items() if part is not None}
        path = f"{self.path(made['kind'])}/{made['metadata']['name']}"
        return self.cluster.api.put(path, {**made, "spec": spec})

    def rejects_change(self, words: str, made: Object, **fields: Any) -> None:
        """Check that a change of the spec is rejected with these words; None drops a field."""
        assert words in self.replace(made, **fields).refused(422, "Invalid")["message"]

    def with_status(self, made: Object, status: Object) -> Any:
        path = f"{self.path(made['kind'])}/{made['metadata']['name']}/status"
        return self.cluster.api.put(path, {**made, "status": status})


def new_object(kind: str, version: str = "v1beta2", **fields: Any) -> Object:
    made: Object = {"apiVersion": f"{GROUP}/{version}", "kind": kind, "metadata": {"generateName": f"{kind.lower()}-"}}
    if kind == "WorkloadPriorityClass":
        return {**made, "value": 7, **fields}
    spec = {name: part for name, part in {**SPECS[kind], **fields}.items() if part is not None}
    return {**made, "spec": copy.deepcopy(spec)}


@pytest.fixture(scope="module")
def serving() -> set[bool]:
    """Return the set of servers that already serve the kinds; True stands for the real one."""
    return set()


@pytest.fixture
def queues(cluster: Cluster, serving: set[bool]) -> Queues:
    """Return each server in turn, after it serves the kinds."""
    if cluster.real not in serving:
        _serve_kinds(cluster)
        serving.add(cluster.real)
    return Queues(cluster)


def _serve_kinds(cluster: Cluster) -> None:
    for made in DEFINED.values():
        answer = cluster.api.post(DEFINITIONS, made, fieldValidation="Strict")
        assert answer.status in {201, 409}, answer.body
    for kind, version in ALL_VERSIONS:
        plural = DEFINED[kind]["spec"]["names"]["plural"]
        eventually(lambda version=version, plural=plural: cluster.api.serves(GROUP, version, plural))


@pytest.fixture
def real_queues(queues: Queues) -> Queues:
    """Return the real server, which evaluates expressions."""
    if not queues.cluster.real:
        pytest.skip("the embedded server evaluates no expressions")
    return queues


def quota(**fields: Any) -> list[Object]:
    """Return groups with one quota."""
    return resource_groups({"cpu": 4}, "default", **fields)


def test_no_definition_has_problems(queues: Queues) -> None:
    """The server accepts the names and the schema, which is structural, so its controller reports no problem later."""
    for kind, made in DEFINED.items():
        answer = queues.cluster.api.get(f"{DEFINITIONS}/{made['metadata']['name']}").ok()
        conditions = {one["type"]: one["status"] for one in answer["status"]["conditions"]}
        assert (kind, conditions.get("NonStructuralSchema", "False")) == (kind, "False")
        assert conditions["NamesAccepted"] == "True"


def test_versions_share_a_schema() -> None:
    """No webhook converts objects, so each version must accept and store what the others do."""
    for made in DEFINED.values():
        schemas = [one["schema"] for one in made["spec"]["versions"]]
        assert all(schema == schemas[0] for schema in schemas)
        assert made["spec"]["conversion"] == {"strategy": "None"}
    assert {kind for kind in DEFINED if (kind, "v1beta1") not in ALL_VERSIONS} == {"Workload"}


@pytest.mark.parametrize(("kind", "version"), ALL_VERSIONS)
def test_valid_objects(queues: Queues, kind: str, version: str) -> None:
    """Each version accepts a valid object of each kind, and the stored version returns it."""
    made = queues.create(kind, version)
    stored = queues.cluster.api.get(f"{queues.path(kind)}/{made['metadata']['name']}").ok()
    assert stored["apiVersion"] == f"{GROUP}/v1beta2"
    assert stored.get("spec") == made.get("spec")


def test_pod_templates_are_stored(queues: Queues) -> None:
    """No field of a pod template is dropped."""
    assert queues.create("Workload")["spec"]["podSets"][0]["template"] == TEMPLATE


def test_defaults(queues: Queues) -> None:
    """Absent fields have Kueue's defaults."""
    spec = queues.create("ClusterQueue")["spec"]
    assert spec["queueingStrategy"] == "BestEffortFIFO"
    assert spec["stopPolicy"] == "None"
    assert spec["flavorFungibility"] == {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"}
    assert spec["preemption"] == {
        "reclaimWithinCohort": "Never",
        "withinClusterQueue": "Never",
        "borrowWithinCohort": {"policy": "Never"},
    }
    assert queues.create("Workload")["spec"]["active"] is True
    config = queues.create("ProvisioningRequestConfig")["spec"]
    assert config["retryStrategy"] == {"backoffLimitCount": 3, "backoffBaseSeconds": 60, "backoffMaxSeconds": 1800}


def test_v1beta1_names(queues: Queues) -> None:
    """A ClusterQueue in v1beta1 keeps its cohort, checks and policies."""
    fields: Object = {
        "cohort": "all",
        "admissionChecks": ["nodes"],
        "flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"},
        "resourceGroups": quota(borrowingLimit="1"),
    }
    assert queues.create("ClusterQueue", "v1beta1", **fields)["spec"].items() >= fields.items()


@pytest.mark.parametrize("amount", ["-1", -1, "-0.5Gi", "many"])
@pytest.mark.parametrize("field", ["nominalQuota", "borrowingLimit", "lendingLimit"])
def test_amounts(queues: Queues, field: str, amount: object) -> None:
    """Negative amounts and invalid quantities are rejected, and the error names the field."""
    queues.rejects(field, "ClusterQueue", cohortName="all", resourceGroups=quota(**{field: amount}))


@pytest.mark.parametrize(
    ("words", "kind", "fields"),
    [
        ("spec.clusterQueue", "LocalQueue", {"clusterQueue": None}),
        ("spec.stopPolicy", "LocalQueue", {"stopPolicy": "Pause"}),
        ("spec.queueingStrategy", "ClusterQueue", {"queueingStrategy": "LIFO"}),
        ("spec.fairSharing.weight", "ClusterQueue", {"fairSharing": {"weight": "-1"}}),
        ("spec.levels", "Topology", {"levels": []}),
        ("spec.levels[0].nodeLabel", "Topology", {"levels": [{"nodeLabel": "not a label"}]}),
        ("spec.nodeTaints[0].effect", "ResourceFlavor", {"nodeTaints": [{"key": "a", "effect": "Never"}]}),
        ("spec.podSets", "Workload", {"podSets": []}),
        ("spec.podSets[0].minCount", "Workload", {"podSets": [{"count": 1, "minCount": 0, "template": TEMPLATE}]}),
        ("spec.maximumExecutionTimeSeconds", "Workload", {"maximumExecutionTimeSeconds": 0}),
        ("spec.provisioningClassName", "ProvisioningRequestConfig", {"provisioningClassName": ""}),
    ],
)
def test_invalid_fields(queues: Queues, words: str, kind: str, fields: Object) -> None:
    """An invalid field is rejected, and the error names it."""
    queues.rejects(words, kind, **fields)


BORROWS = quota(borrowingLimit="1")
LENDS = quota(lendingLimit="1")
TWO_RESOURCES = [{"coveredResources": ["cpu", "memory"], "flavors": FLAVORS}]
RECLAIM = {"borrowWithinCohort": {"policy": "LowerPriority"}}


@pytest.mark.parametrize(
    ("words", "kind", "fields"),
    [
        ("does not support MultiKueue", "AdmissionCheck", {"controllerName": "kueue.x-k8s.io/multikueue"}),
        ("does not support concurrentAdmissionPolicy", "ClusterQueue",
         {"concurrentAdmissionPolicy": {"migration": {"mode": "TryPreferredFlavors"}}}),
        ("set one of them", "ClusterQueue", {"cohort": "a", "cohortName": "a"}),
        ("exclude each other", "ClusterQueue",
         {"admissionChecks": ["a"], "admissionChecksStrategy": {"admissionChecks": [{"name": "a"}]}}),
        ("borrowingLimit needs a cohort", "ClusterQueue", {"resourceGroups": BORROWS}),
        ("lendingLimit needs a cohort", "ClusterQueue", {"resourceGroups": LENDS}),
        ("each of coveredResources", "ClusterQueue", {"resourceGroups": TWO_RESOURCES}),
        ("preference needs", "ClusterQueue", {"flavorFungibility": {"preference": "PreemptionOverBorrowing"}}),
        ("borrowWithinCohort needs", "ClusterQueue", {"preemption": RECLAIM}),
        ("borrowingLimit needs a parent", "Cohort", {"resourceGroups": BORROWS}),
        ("each of coveredResources", "Cohort", {"resourceGroups": TWO_RESOURCES}),
        ("needs at least one of nodeLabels", "ResourceFlavor", {"nodeLabels": None}),
        ("needs the operator Exists", "ResourceFlavor", {"tolerations": [{"value": "a"}]}),
        ("needs the effect NoExecute", "ResourceFlavor", {"tolerations": [{"key": "a", "tolerationSeconds": 1}]}),
        ("has no value", "ResourceFlavor", {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}),
        ("one level only", "Topology", {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": "rack"}]}),
        ("last level only", "Topology", {"levels": [{"nodeLabel": "kubernetes.io/hostname"}, {"nodeLabel": "rack"}]}),
        ("cannot be above count", "Workload", {"podSets": [{"count": 1, "minCount": 2, "template": TEMPLATE}]}),
        ("needs priority", "Workload",
         {"priorityClassRef": {"group": GROUP, "kind": "WorkloadPriorityClass", "name": "a"}}),
        ("group and kind must be", "Workload",
         {"priority": 1, "priorityClassRef": {"group": GROUP, "kind": "PriorityClass", "name": "a"}}),
    ],
)  # fmt: skip
def test_invalid_combinations(real_queues: Queues, words: str, kind: str, fields: Object) -> None:
    """Fields that contradict each other are rejected, and the error states what to do."""
    real_queues.rejects(words, kind, **fields)


def test_immutable_fields(real_queues: Queues) -> None:
    """Fields on which running workloads depend cannot be changed."""
    words = "cannot be changed"
    real_queues.rejects_change(words, real_queues.create("LocalQueue"), clusterQueue="other")
    real_queues.rejects_change(words, real_queues.create("AdmissionCheck"), controllerName="other")
    flavor = real_queues.create("ResourceFlavor")
    real_queues.rejects_change(words, flavor, topologyName="other")
    real_queues.rejects_change(words, flavor, topologyName=None)
    assert real_queues.create("ResourceFlavor", topologyName=None)
    racks = real_queues.create("Topology", levels=[{"nodeLabel": "rack"}])
    real_queues.rejects_change("levels can be changed only", racks, levels=[{"nodeLabel": "block"}])
    hosts = real_queues.create("Topology")
    real_queues.replace(hosts, levels=hosts["spec"]["levels"][1:]).ok()


def admission(*names: str) -> Object:
    assignments = [
        {"name": name, "count": 2, "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "2"}} for name in names
    ]
    return {"clusterQueue": "default", "podSetAssignments": assignments}


def reserved_workload(queues: Queues) -> Object:
    made = queues.create("Workload", priority=1, priorityClassRef=priority("low"))
    return queues.with_status(made, {"conditions": RESERVED, "admission": admission("main")}).ok()


def priority(name: str, kind: str = "WorkloadPriorityClass") -> Object:
    group = GROUP if kind == "WorkloadPriorityClass" else "scheduling.k8s.io"
    return {"group": group, "kind": kind, "name": name}


def test_a_workload_with_quota(real_queues: Queues) -> None:
    """While quota is reserved, pod sets, queue and the kind of the priority are fixed; priority and active are not.

    A pod set may have fewer pods, as an elastic Job that shrinks.
    """
    made = reserved_workload(real_queues)
    more = [{**made["spec"]["podSets"][0], "count": 3}]
    real_queues.rejects_change("podSets cannot be changed", made, podSets=more)
    template = {"spec": {**TEMPLATE["spec"], "hostNetwork": True}}
    other = [{**made["spec"]["podSets"][0], "template": template}]
    real_queues.rejects_change("podSets cannot be changed", made, podSets=other)
    real_queues.rejects_change("queueName cannot be changed", made, queueName="other")
    real_queues.rejects_change("queueName cannot be changed", made, queueName=None)
    real_queues.rejects_change("only the name", made, priorityClassRef=priority("low", "PriorityClass"))
    real_queues.rejects_change("only the name", made, priorityClassRef=None)
    placed = [{**made["spec"]["podSets"][0], "topologyRequest": {"unconstrained": True}}]
    real_queues.rejects_change("podSets cannot be changed", made, podSets=placed)
    made = real_queues.replace(made, priorityClassRef=priority("high"), priority=9, active=False).ok()
    fewer = [{**made["spec"]["podSets"][0], "count": made["spec"]["podSets"][0]["count"] - 1}]
    real_queues.replace(made, podSets=fewer).ok()


def test_a_workload_without_quota(queues: Queues) -> None:
    """Without quota, everything can be changed."""
    made = queues.create("Workload")
    changed = [{**made["spec"]["podSets"][0], "count": 3}]
    queues.replace(made, podSets=changed, queueName="other").ok()


def test_an_admission_has_all_pod_sets(real_queues: Queues) -> None:
    """An admission is rejected if its pod sets are not those of the workload."""
    made = real_queues.create("Workload")
    answer = real_queues.with_status(made, {"conditions": RESERVED, "admission": admission("main", "more")})
    assert "one of podSetAssignments for each" in answer.refused(422, "Invalid")["message"]


def test_topology_assignments(real_queues: Queues) -> None:
    """Slices have one value per level and domain."""
    made = real_queues.create("Workload")
    piece: Object = {
        "domainCount": 2,
        "valuesPerLevel": [{"individual": {"prefix": "node-", "roots": ["1", "2"]}}],
        "podCounts": {"universal": 1},
    }

    def answer(**fields: Any) -> Any:
        assignment = {"levels": ["kubernetes.io/hostname"], "slices": [{**piece, **fields}]}
        whole = admission("main")
        whole["podSetAssignments"][0]["topologyAssignment"] = assignment
        return real_queues.with_status(made, {"conditions": RESERVED, "admission": whole})

    invalid: list[tuple[Object, str]] = [
        ({"valuesPerLevel": [*piece["valuesPerLevel"], {"universal": "rack"}]}, "one item for each of levels"),
        ({"domainCount": 3}, "individual.roots needs domainCount items"),
        ({"podCounts": {"individual": [1]}}, "podCounts.individual needs domainCount items"),
        ({"podCounts": {"individual": [1, 2], "universal": 1}}, "one of universal and individual"),
    ]
    for fields, words in invalid:
        assert words in answer(**fields).refused(422, "Invalid")["message"]
    assert answer().ok()["status"]["admission"]["podSetAssignments"][0]["topologyAssignment"]["slices"] == [piece]


def test_columns(queues: Queues) -> None:
    """`kubectl get` shows the columns that Kueue's users know."""
    table = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    expected = {
        "ClusterQueue": ["Name", "Cohort", "Strategy", "Pending Workloads", "Admitted Workloads"],
        "LocalQueue": ["Name", "ClusterQueue", "Pending Workloads", "Admitted Workloads"],
        "Workload": ["Name", "Queue", "Reserved in", "Admitted", "Finished", "Age"],
        "WorkloadPriorityClass": ["Name", "Value"],
    }
    for kind, columns in expected.items():
        answer = queues.cluster.api.get(queues.path(kind), _headers=table).ok()
        assert [column["name"] for column in answer["columnDefinitions"]] == columns


def test_a_cohort_without_quota_and_parent_needs_no_spec(queues: Queues) -> None:
    """Kueue accepts it, for example as the root of a tree."""
    body = {"apiVersion": f"{GROUP}/v1beta2", "kind": "Cohort", "metadata": {"generateName": "root-"}}
    queues.cluster.api.post(queues.path("Cohort"), body, fieldValidation="Strict").ok()
