"""Objects of a cluster: queues, Jobs, Workloads, nodes and their reports."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from support.queue_objects import cluster_queue_spec
from zonewise_scheduler.backfill.policies import policy_named
from zonewise_scheduler.quota.api.amount import UNLIMITED
from zonewise_scheduler.quota.api.begin_time import BEGIN_ANNOTATION
from zonewise_scheduler.quota.topology.types import HOSTNAME, PodSetTopologyRequest, SliceConstraint
from zonewise_scheduler.simulator.cluster_simulation import simulate_cluster
from zonewise_scheduler.simulator.inputs.cluster_objects import has_nodes, is_object, read_objects
from zonewise_scheduler.simulator.inputs.documents import Document
from zonewise_scheduler.simulator.inputs.fleet_file import parse_short_fleet
from zonewise_scheduler.simulator.inputs.job_objects import RUN_SECONDS_ANNOTATION, SUBMIT_SECONDS_ANNOTATION
from zonewise_scheduler.simulator.inputs.node_objects import fleet_from_reports
from zonewise_scheduler.simulator.inputs.source_files import InputError
from zonewise_scheduler.simulator.scenario import Scenario  # noqa: TC001 -- told apart below

Json = dict[str, Any]

KUEUE = "kueue.x-k8s.io/v1beta2"
CONTAINER = {"name": "c", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}


CONTAINERS = {"containers": [CONTAINER]}


def obj(kind: str, name: str, spec: Json | None = None, **fields: object) -> Json:
    result: Json = {"apiVersion": KUEUE, "kind": kind, "metadata": {"name": name}, **fields}
    return result if spec is None else result | {"spec": spec}


def queue(name: str, flavor: str = "f", cpus: int = 10) -> Json:
    return obj("ClusterQueue", name, cluster_queue_spec({"cpu": cpus}, flavor))


def job(
    name: str, *, notes: Json | None = None, labels: Json | None = None, status: Json | None = None, **spec: object
) -> Json:
    template = {"spec": {"containers": [CONTAINER]}}
    metadata = {
        "name": name,
        "namespace": "ns",
        "annotations": {RUN_SECONDS_ANNOTATION: "60"} if notes is None else notes,
    }
    if labels:
        metadata["labels"] = labels
    built = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template, **spec}}
    return built if status is None else built | {"status": status}


def node(name: str, **labels: str) -> Json:
    metadata = {
        "name": name,
        "labels": {key.replace("__", "/").replace("_", "."): entry for key, entry in labels.items()},
    }
    status = {"allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


def report(name: str, cpus: tuple[int, ...] = (4, 4), labels: Json | None = None, counts: Json | None = None) -> Json:
    """Return the report that resource-topology-exporter would write about a node that is half in use."""
    zones = [
        {
            "name": f"node-{zone}",
            "type": "Node",
            "resources": [
                {"name": resource, "capacity": str(most), "allocatable": str(most), "available": str(most // 2)}
                for resource, most in {"cpu": number, **(counts or {})}.items()
            ],
        }
        for zone, number in enumerate(cpus)
    ]
    metadata: Json = {"name": name, "labels": labels} if labels else {"name": name}
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology", "metadata": metadata,
        "zones": zones, "attributes": [{"name": "topologyManagerPolicy", "value": "single-numa-node"}],
    }  # fmt: skip


def documents(*objects: Json) -> list[Document]:
    return [Document("f.yaml", entry) for entry in objects]


def read(*objects: Json, nodes: str | None = None) -> Scenario:
    return read_objects(documents(*objects), "f.yaml", None if nodes is None else parse_short_fleet(nodes))


# --- jobs


def owned(name: str, owner: str) -> Json:
    """Return a Workload that Kueue has created for a Job."""
    built = obj("Workload", name, {"queueName": "lq", "podSets": [{"count": 1, "template": {"spec": CONTAINERS}}]})
    built["metadata"] |= {"namespace": "ns", "ownerReferences": [{"kind": "Job", "name": owner, "uid": "u"}]}
    built["metadata"]["annotations"] = {RUN_SECONDS_ANNOTATION: "1"}
    return built


def test_a_job_and_its_workload_are_one() -> None:
    """`kubectl get jobs,workloads -o yaml` prints both; a Workload without its Job is a job of its own."""
    result = read(job("a"), owned("job-a", "a"), owned("job-b", "b"), nodes="3x8")
    assert [(entry.workload.name, entry.run_time) for entry in result.arrivals] == [("a", 60), ("job-b", 1)]
    assert result.problems == ()


def test_requests_that_other_objects_add_are_reported() -> None:
    """On a cluster, these devices and the overhead count too. Devices that pods share do not."""
    claims = [{"name": "own", "resourceClaimTemplateName": "two-gpus"}, {"name": "one", "resourceClaimName": "shared"}]
    template = {"spec": {**CONTAINERS, "resourceClaims": claims, "runtimeClassName": "kata"}}
    workload = obj("Workload", "w", {"podSets": [{"count": 1, "template": template}]})
    workload["metadata"]["annotations"] = {RUN_SECONDS_ANNOTATION: "1"}
    result = read(job("a", template=template), workload, job("b"), nodes="3x8")
    assert len(result.arrivals) == 3
    assert result.problems == tuple(
        f"f.yaml: {label}: template.spec.{problem}"
        for label in ("Job a", "Workload w")
        for problem in (
            "resourceClaims[0].resourceClaimTemplateName: its devices do not count: 'two-gpus'",
            "runtimeClassName: its overhead does not count: 'kata'",
        )
    )


def test_kinds_of_other_groups_are_ignored() -> None:
    """Jobs of Volcano and objects of unknown versions are not Kubernetes Jobs."""
    volcano = job("v") | {"apiVersion": "batch.volcano.sh/v1alpha1"}
    later_api = "kueue.x-k8s.io/v9"
    later = obj("LocalQueue", "lq", {"clusterQueue": "q"}, apiVersion=later_api)
    result = read(job("a"), volcano, later, nodes="3x8")
    assert [entry.workload.name for entry in result.arrivals] == ["a"]
    assert result.problems == (
        f"f.yaml: LocalQueue lq: apiVersion: not one of v1alpha1, v1beta1, v1beta2, and read as the last: {later_api}",
        "f.yaml: 1 of kind Job (batch.volcano.sh/v1alpha1): ignored",
    )


def test_the_priority_of_the_pods_counts_if_the_job_has_none() -> None:
    """As in Kueue, the WorkloadPriorityClass takes precedence."""
    spec = {"spec": CONTAINERS | {"priorityClassName": "low"}}
    classes = (
        obj("WorkloadPriorityClass", "high", value=7),
        obj("PriorityClass", "low", value=3, globalDefault=False, apiVersion="scheduling.k8s.io/v1"),
    )
    label = {"kueue.x-k8s.io/priority-class": "high"}
    result = read(*classes, job("a", template=spec), job("b", template=spec, labels=label), nodes="3x8")
    assert result.problems == ()
    assert [(entry.kind, entry.workload.priority) for entry in result.arrivals] == [("low", 3), ("high", 7)]


def test_pods_without_a_class_have_the_global_default() -> None:
    """The API server sets this default; it never replaces a class that a job names."""
    scheduling = "scheduling.k8s.io/v1"
    classes = (
        obj("PriorityClass", "low", value=3, apiVersion=scheduling),
        obj("PriorityClass", "usual", value=5, globalDefault=True, apiVersion=scheduling),
        obj("PriorityClass", "older", value=4, globalDefault=True, apiVersion=scheduling),
    )
    named = {"spec": CONTAINERS | {"priorityClassName": "low"}}
    result = read(*classes, job("a"), job("b", template=named), nodes="3x8")
    assert [(entry.kind, entry.workload.priority) for entry in result.arrivals] == [("older", 4), ("low", 3)]


def test_run_times_are_declared_as_on_a_cluster() -> None:
    """Both the Job and its annotation may declare one; the smaller counts."""
    noted = {RUN_SECONDS_ANNOTATION: "60", "zonewise.dev/max-run-seconds": "5m"}
    jobs = [job(f"j{limit}", notes=noted, activeDeadlineSeconds=limit) for limit in (200, 400)]
    assert [entry.workload.walltime for entry in read(*jobs, nodes="3x8").arrivals] == [200, 300]


def test_pods_that_request_nothing_run_on_nodes_as_well() -> None:
    """Jobs of `kubectl create job` have such pods; the queue of all nodes has a quota of pods for them."""
    bare = {"spec": {"containers": [{"name": "c"}]}}
    result = read(job("a", template=bare, parallelism=3), job("b"), nodes="3x8")
    assert all("pods" in entry.resource_groups[0].covered_resources for entry in result.queues)
    assert [entry.outcome for entry in simulate_cluster(result, policy_named("greedy")).jobs] == ["done", "done"]
    assert "pods" not in read(job("b"), nodes="3x8").queues[0].resource_groups[0].covered_resources


def test_a_duplicate_object_is_reported() -> None:
    """A directory may contain a copy of a file; the last object counts, as with `kubectl apply`."""
    label = {"kueue.x-k8s.io/queue-name": "q"}
    result = read(queue("q", cpus=1), queue("q", cpus=9), obj("ResourceFlavor", "f"), job("j", labels=label))
    assert result.problems == ("f.yaml: ClusterQueue q: duplicate name: the last one counts",)
    assert [entry.resource_groups[0].flavors[0].quotas[0][1].nominal for entry in result.queues] == [9000]


def test_nodes_without_a_topology_do_not_count() -> None:
    label = {"kueue.x-k8s.io/queue-name": "q"}
    result = read(queue("q"), obj("ResourceFlavor", "f"), job("j", labels=label), nodes="3x8")
    assert result.problems == (
        "f.yaml: no ResourceFlavor refers to an existing Topology: only quotas count, and nodes do not",
    )


def test_a_job_may_start_with_fewer_pods_and_in_slices() -> None:
    notes = {RUN_SECONDS_ANNOTATION: "1", "kueue.x-k8s.io/job-min-parallelism": "2"}
    built = job("a", notes=notes, parallelism=4)
    slices = {"podset-slice-required-topology": "rack", "podset-slice-size": "2"}
    built["spec"]["template"]["metadata"] = {
        "annotations": {f"kueue.x-k8s.io/{key}": entry for key, entry in slices.items()}
    }
    [entry] = read(built, nodes="3x8").arrivals
    [pods] = entry.workload.pod_sets
    assert (pods.pods, pods.min_pods) == (4, 2)
    assert pods.topology is not None
    assert pods.topology.request == PodSetTopologyRequest(slice_constraints=(SliceConstraint("rack", 2),))
    notes["kueue.x-k8s.io/job-min-parallelism"] = "few"
    result = read(built, job("b"), nodes="3x8")
    assert [entry.workload.name for entry in result.arrivals] == ["b"]
    assert "job-min-parallelism: not a number from 1 to 67108864: 'few'" in result.problems[0]


def test_a_job_is_queued_as_kueue_would() -> None:
    result = read(
        queue("q"), obj("ResourceFlavor", "f"),
        obj("LocalQueue", "lq", {"clusterQueue": "q"}, metadata={"name": "lq", "namespace": "ns"}),
        obj("WorkloadPriorityClass", "high", value=7),
        job("j", labels={"kueue.x-k8s.io/queue-name": "lq", "kueue.x-k8s.io/priority-class": "high"}, parallelism=4,
            completions=3, activeDeadlineSeconds=90, suspend=True),
    )  # fmt: skip
    assert result.problems == ()
    [entry] = result.arrivals
    assert (entry.queue, entry.run_time, entry.kind) == ("q", 60, "high")
    assert (entry.workload.key, entry.workload.priority, entry.workload.walltime, entry.workload.created_at) == (
        "ns/j",
        7,
        90,
        0,
    )
    [pods] = entry.workload.pod_sets
    assert (pods.pods, pods.requests) == (3, {"cpu": 2000, "memory": 1 << 30})


def test_annotations_of_a_job_request_a_topology() -> None:
    built = job("j")
    built["spec"]["template"]["metadata"] = {"annotations": {"kueue.x-k8s.io/podset-required-topology": "rack"}}
    [entry] = read(built, nodes="3x8").arrivals
    topology = entry.workload.pod_sets[0].topology
    assert topology is not None
    assert topology.request == PodSetTopologyRequest(required="rack")


def test_jobs_are_submitted_at_their_creation_or_at_the_annotated_time() -> None:
    early, late, noted = (
        job("a"),
        job("b"),
        job("c", notes={RUN_SECONDS_ANNOTATION: "1", SUBMIT_SECONDS_ANNOTATION: "5"}),
    )
    early["metadata"]["creationTimestamp"] = "2026-01-02T03:00:00Z"
    late["metadata"]["creationTimestamp"] = "2026-01-02T03:01:00Z"
    result = read(late, early, noted, nodes="3x8")
    assert [(entry.workload.name, entry.workload.created_at) for entry in result.arrivals] == [
        ("a", 0),
        ("c", 5),
        ("b", 60),
    ]


def test_begin_times_move_with_the_submission() -> None:
    """The clock of the simulation begins at 0."""
    begin = {RUN_SECONDS_ANNOTATION: "1", BEGIN_ANNOTATION: "2026-01-02T03:10:00Z"}
    late, noted = job("b", notes=begin), job("c", notes=begin | {SUBMIT_SECONDS_ANNOTATION: "5"})
    early = job("a")
    for minute, entry in enumerate((early, late, noted)):
        entry["metadata"]["creationTimestamp"] = f"2026-01-02T03:0{minute}:00Z"
    result = read(early, late, noted, nodes="3x8")
    assert {entry.workload.name: entry.workload.begin_at for entry in result.arrivals} == {"a": 0, "b": 600, "c": 485}


def test_a_begin_time_without_a_creation_time_is_a_problem() -> None:
    """It cannot be related to the submission, which is at 0."""
    result = read(job("a", notes={RUN_SECONDS_ANNOTATION: "1", BEGIN_ANNOTATION: "2026-01-02T03:10:00Z"}), nodes="3x8")
    assert [entry.workload.begin_at for entry in result.arrivals] == [0]
    assert any(BEGIN_ANNOTATION in problem and "ignored" in problem for problem in result.problems)


def test_the_run_time_of_a_job_follows_from_its_status() -> None:
    """A workload that ran on one cluster can therefore be simulated on another one."""
    status = {"startTime": "2026-01-02T03:00:00Z", "completionTime": "2026-01-02T03:02:00Z"}
    [entry] = read(job("j", notes={}, status=status), nodes="3x8").arrivals
    assert (entry.run_time, entry.workload.walltime) == (120, inf)


def test_the_run_time_of_a_failed_job_follows_from_its_condition() -> None:
    """A failed Job has no completionTime, and this one ended before its deadline."""
    failed = {"type": "Failed", "status": "True", "lastTransitionTime": "2026-01-02T03:02:00Z"}
    status = {"startTime": "2026-01-02T03:00:00Z", "conditions": [{"type": "Suspended", "status": "False"}, failed]}
    running = {**status, "conditions": [{**failed, "status": "False"}]}
    result = read(
        job("a", notes={}, status=status, activeDeadlineSeconds=3600),
        job("b", notes={}, status=status),
        job("c", notes={}, status=running, activeDeadlineSeconds=3600),
        nodes="3x8",
    )
    assert [(entry.workload.name, entry.run_time) for entry in result.arrivals] == [("a", 120), ("b", 120), ("c", 3600)]
    assert result.problems == ()


def test_a_misspelled_field_of_a_job_is_reported() -> None:
    """The field is in a file; the API server would reject it. The other fields of the Job count."""
    result = read(job("a", paralelism=2, ttlSecondsAfterFinished=60), nodes="3x8")
    assert [entry.workload.pod_sets[0].pods for entry in result.arrivals] == [1]
    assert result.problems == ("f.yaml: Job a: spec.paralelism: unknown field",)


def test_a_problem_that_is_found_more_than_once_is_reported_once() -> None:
    with pytest.raises(InputError) as error:
        read(job("a", notes={RUN_SECONDS_ANNOTATION: 60}), nodes="3x8")
    assert str(error.value).count("not a string: 60") == 1


def test_a_job_of_unknown_run_time_runs_for_its_walltime_or_is_omitted() -> None:
    result = read(job("a", notes={}, activeDeadlineSeconds=30), job("b", notes={}), nodes="3x8")
    assert [(entry.workload.name, entry.run_time) for entry in result.arrivals] == [("a", 30)]
    assert result.problems == (
        f"f.yaml: Job b: metadata.annotations.{RUN_SECONDS_ANNOTATION}: is missing, so the run time is unknown",
    )


def test_workloads_are_read_without_their_admissions() -> None:
    spec = {
        "queueName": "q", "priority": 3, "maximumExecutionTimeSeconds": 50,
        "podSets": [{"name": "main", "count": 2, "template": {"spec": {"containers": [CONTAINER]}}}],
    }  # fmt: skip
    built = obj("Workload", "w", spec, status={"conditions": [{"type": "QuotaReserved", "status": "True"}]})
    built["metadata"]["annotations"] = {RUN_SECONDS_ANNOTATION: "20"}
    result = read(queue("q"), obj("ResourceFlavor", "f"), built)
    [entry] = result.arrivals
    assert (entry.queue, entry.run_time, entry.workload.walltime, entry.workload.priority) == ("q", 20, 50, 3)
    assert entry.workload.admission is None


@pytest.mark.parametrize(
    ("damaged", "reported"),
    [
        (job("x", parallelism="two"), "Job x: spec.parallelism: not a whole number: 'two'"),
        (
            job("x", notes={RUN_SECONDS_ANNOTATION: "long"}),
            f"Job x: metadata.annotations.{RUN_SECONDS_ANNOTATION}: not a number of seconds: 'long'",
        ),
        (job("x", notes={RUN_SECONDS_ANNOTATION: "-1"}), "not a number of seconds: '-1'"),
        (job("x", notes={RUN_SECONDS_ANNOTATION: "nan"}), "not a number of seconds: 'nan'"),
        (job("x", labels={"kueue.x-k8s.io/queue-name": "no"}), "Job x: there is no queue 'no'"),
        (job("j"), "Job j: duplicate name"),
        (job("x", template={"spec": {"containers": 3}}), "Job x: "),
        (job("x", labels={"kueue.x-k8s.io/priority-class": "no"}), "there is no such class: 'no'; it counts as 0"),
        (obj("Workload", "x", {"podSets": [{"count": -1}]}), "Workload x: "),
        (obj("ClusterQueue", "x", {"cohort": 3}), "ClusterQueue x: spec.cohort: not a string: 3"),
        (obj("Topology", "t", {"levels": [{}]}), "Topology t: spec.levels: not labels of nodes: [{}]"),
        ({"apiVersion": "v1", "kind": "Secret"}, "1 of kind Secret (v1): ignored"),
    ],
)
def test_a_damaged_object_is_reported_and_no_other_is_lost(damaged: Json, reported: str) -> None:
    label = {"kueue.x-k8s.io/queue-name": "q"}
    result = read(queue("q"), obj("ResourceFlavor", "f"), job("j", labels=label), damaged, job("k", labels=label))
    assert {"j", "k"} <= {entry.workload.name for entry in result.arrivals}
    assert any(reported in entry for entry in result.problems), result.problems


@pytest.mark.parametrize(
    "damaged",
    [
        job("x", parallelism="two"),
        job("x", parallelism=0),
        job("x", notes={RUN_SECONDS_ANNOTATION: "long"}, activeDeadlineSeconds=5),
    ],
)
def test_a_job_whose_pods_or_run_time_are_damaged_is_omitted(damaged: Json) -> None:
    """An unknown number is neither one nor zero."""
    result = read(job("j"), damaged, nodes="4x8")
    assert [entry.workload.name for entry in result.arrivals] == ["j"]
    assert len(result.problems) == 1


def test_queues_without_a_description_share_the_nodes() -> None:
    result = read(
        job("a", labels={"kueue.x-k8s.io/queue-name": "x"}),
        job("b", labels={"kueue.x-k8s.io/queue-name": "y"}),
        nodes="4x8",
    )
    assert [(entry.name, entry.cohort_name) for entry in result.queues] == [("x", "all"), ("y", "all")]
    assert [entry.queue for entry in result.arrivals] == ["x", "y"]
    assert read(job("a"), nodes="4x8").arrivals[0].queue == "all"


def test_a_missing_flavor_is_reported() -> None:
    result = read(queue("q", "gone"), job("j"))
    assert result.problems == ("f.yaml: ResourceFlavor gone: does not exist, and is treated as a flavor for any node",)
    assert [entry.name for entry in result.flavors] == ["gone"]


def test_topologies_and_flavors_are_those_of_the_objects() -> None:
    result = read(
        queue("q"), obj("ResourceFlavor", "f", {"nodeLabels": {"a": "b"}, "topologyName": "t"}),
        obj("Topology", "t", {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": HOSTNAME}]}),
        node("n1", a="b", rack="r1"), job("j"),
    )  # fmt: skip
    assert result.problems == ()
    assert result.topologies["t"] == ("rack", HOSTNAME)
    assert result.flavors[-1].topology_name == "t"
    assert result.nodes is not None
    assert len(result.nodes) == 1


def test_without_jobs_or_anything_to_run_on_there_is_an_error() -> None:
    with pytest.raises(InputError, match=r"^f\.yaml: no Job or Workload that could be read"):
        read(queue("q"))
    with pytest.raises(InputError, match=r"^f\.yaml: neither ClusterQueues nor nodes"):
        read(job("j"))


def test_objects_are_distinguished_from_other_files() -> None:
    assert is_object(job("j"))
    assert not is_object({"jobs": []})
    assert has_nodes(documents(job("j"), report("n")))
    assert not has_nodes(documents(job("j")))


# --- nodes


def test_a_report_has_the_capacity_of_its_node_and_its_zones_when_nothing_runs() -> None:
    result = fleet_from_reports(documents(report("n", counts={"memory": 1 << 30, "x.com/gpu": 2})))
    assert result.problems == ()
    assert result.total_capacity == {"cpu": 8000, "memory": 2 << 30, "ephemeral-storage": UNLIMITED, "x.com/gpu": 4}
    state = result.states["n"]
    assert state.kind.policies.topology == "single-numa-node"
    assert state.free_cpus.bit_count() == 8
    assert state.memory_free == ((1 << 30,), (1 << 30,))
    assert state.device_free == (2, 2)
    assert result.topologies == {"nodes": (HOSTNAME,)}
    info = result.nodes.infos[0]
    assert info is not None
    assert info.label(HOSTNAME) == "n"


def test_a_node_object_takes_precedence_over_its_report() -> None:
    result = fleet_from_reports(documents(report("n")), documents(node("n"), node("m")))
    assert result.total_capacity["cpu"] == 16_000
    assert sorted(result.states) == ["n"]
    assert [result.nodes.name(row) for row in range(2)] == ["m", "n"]


def test_the_rules_are_those_of_the_kubelet_on_a_node() -> None:
    """A node without a v1.Node has those of the newest known release."""
    old = node("n")
    old["status"]["nodeInfo"] = {"kubeletVersion": "v1.31.4"}
    states = fleet_from_reports(documents(report("n"), report("m")), documents(old)).states
    assert (states["n"].kind.policies.release, states["m"].kind.policies.release) == ((1, 31), (1, 36))


def test_memory_that_a_report_does_not_contain_is_not_counted() -> None:
    result = fleet_from_reports(documents(report("n")))
    assert result.total_capacity["memory"] == UNLIMITED


def test_levels_are_labels_that_every_node_has() -> None:
    rack, zone = "cloud.provider.com/topology-rack", "topology.kubernetes.io/zone"
    both = [report("a", labels={rack: "r", zone: "z"}), report("b", labels={rack: "s", zone: "z"})]
    assert fleet_from_reports(documents(*both)).topologies == {"nodes": (zone, rack, HOSTNAME)}
    assert fleet_from_reports(documents(*both, report("c", labels={zone: "z"}))).topologies == {
        "nodes": (zone, HOSTNAME)
    }


def test_labels_of_the_fabric_are_levels() -> None:
    """Those that `zonewise fabric` sets; the highest number is the widest level."""
    labels = {f"zonewise.dev/fabric-tier-{level}": str(level) for level in range(3)}
    assert fleet_from_reports(documents(report("a", labels=labels))).topologies == {
        "nodes": (*reversed(labels), HOSTNAME)
    }


@pytest.mark.parametrize(
    ("damaged", "reported"),
    [
        (report(""), "metadata.name: not a name"),
        (report("n"), "NodeResourceTopology n: duplicate name"),
        (report("x", cpus=()), "NodeResourceTopology x: no zone has a number of CPUs"),
        (report("x", labels={"a": 3}), "NodeResourceTopology x: metadata.labels.a: not a string: 3"),
        (report("x") | {"zones": "none"}, "NodeResourceTopology x: zones: not a list: 'none'"),
    ],
)
def test_a_damaged_report_is_reported_and_the_rest_are_read(damaged: Json, reported: str) -> None:
    result = fleet_from_reports(documents(report("n"), damaged, report("o")))
    assert any(reported in entry for entry in result.problems), result.problems
    assert {"n", "o"} <= set(result.states)
    assert len(result.nodes) == 2
