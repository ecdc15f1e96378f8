"""Volcano's scheduler and controllers as processes, for benchmarks that use them as a peer.

Builds of volcano-sh/volcano's cmd/scheduler and cmd/controller-manager are looked up as `vc-scheduler` and
`vc-controller-manager`, next to the Kubernetes programs. They use the flags of Volcano's chart
(installer/helm/chart/volcano/values.yaml) and its actions and plugins (config/volcano-scheduler.conf). Its admission
webhooks are absent: annotations of a pod name its queue and the size of its group.
"""

from __future__ import annotations

import contextlib
import json
import sys
from typing import TYPE_CHECKING, Any

from benchmarks.support.agent_testbed import PROJECT
from benchmarks.support.peer_process import running_program

if TYPE_CHECKING:
    from collections.abc import Generator

    from support.live_cluster import LiveCluster

sys.path.insert(0, str(PROJECT / "tests"))

Json = dict[str, Any]

VOLCANO_SCHEDULER = "volcano"
"""The scheduler name of Volcano's pods."""
MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
"""Annotation of a Job: how many of its pods start together (pkg/controllers/podgroup/pg_controller_handler.go)."""
QUEUE_NAME = "scheduling.volcano.sh/queue-name"
"""Annotation of a pod with the name of its queue."""
DEFAULT_QUEUE = "default"
_PROGRAMS = ("vc-scheduler", "vc-controller-manager")
_CONFIGURATION = {
    "actions": "enqueue, allocate, backfill",
    "tiers": [
        {"plugins": [{"name": "priority"}, {"name": "gang", "enablePreemptable": False}, {"name": "conformance"}]},
        {
            "plugins": [
                {"name": "overcommit"},
                {"name": "drf", "enablePreemptable": False},
                {"name": "predicates"},
                {"name": "proportion"},
                {"name": "nodeorder"},
                {"name": "binpack"},
            ]
        },
    ],
}
_CONTROLLER_LIMITS = ("--kube-api-qps=50", "--kube-api-burst=100")
_KINDS = (
    ("batch.volcano.sh", "v1alpha1", "Job", "jobs", "Namespaced"),
    ("batch.volcano.sh", "v1alpha1", "CronJob", "cronjobs", "Namespaced"),
    ("bus.volcano.sh", "v1alpha1", "Command", "commands", "Namespaced"),
    ("config.volcano.sh", "v1alpha1", "ColocationConfiguration", "colocationconfigurations", "Namespaced"),
    ("flow.volcano.sh", "v1alpha1", "JobFlow", "jobflows", "Namespaced"),
    ("flow.volcano.sh", "v1alpha1", "JobTemplate", "jobtemplates", "Namespaced"),
    ("nodeinfo.volcano.sh", "v1alpha1", "Numatopology", "numatopologies", "Cluster"),
    ("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups", "Namespaced"),
    ("scheduling.volcano.sh", "v1beta1", "Queue", "queues", "Cluster"),
    ("shard.volcano.sh", "v1alpha1", "NodeShard", "nodeshards", "Cluster"),
    ("topology.volcano.sh", "v1alpha1", "HyperNode", "hypernodes", "Cluster"),
)
"""Group, version, kind, plural and scope of the kinds that the programs watch (config/crd)."""
_WITHOUT_STATUS_PATH = {"Command", "Numatopology", "PodGroup"}
"""Kinds whose status is written together with the object."""


def volcano_absence() -> str:
    """Return why Volcano cannot run here, or "" if it can."""
    from support.programs import find_program, missing_program

    return next((missing_program(program) for program in _PROGRAMS if find_program(program) is None), "")


@contextlib.contextmanager
def running_volcano(cluster: LiveCluster) -> Generator[None]:
    """Run Volcano on a cluster until the block ends; wait until it is ready."""
    from support.programs import find_program
    from support.waiting import eventually
    from zonewise_sandbox.up.ports import reserved_port

    for kind in _KINDS:
        cluster.api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", _definition(*kind)).ok()
    directory = cluster.directory
    configuration = directory / "volcano-scheduler.json"
    configuration.write_text(json.dumps(_CONFIGURATION))
    flags = {
        "vc-scheduler": (f"--scheduler-conf={configuration}", f"--cache-dump-dir={directory}"),
        "vc-controller-manager": _CONTROLLER_LIMITS,
    }
    with contextlib.ExitStack() as stack:
        for program in _PROGRAMS:
            address = f"127.0.0.1:{stack.enter_context(reserved_port())}"
            command = [str(find_program(program)), f"--kubeconfig={cluster.flags[1]}", *flags[program]]
            command += ["--leader-elect=false", "--enable-healthz=true", f"--healthz-address={address}"]
            log = directory / f"{program}.log"
            stack.enter_context(running_program(command, log, f"http://{address}/healthz"))
        eventually(lambda: cluster.api.get(f"/apis/scheduling.volcano.sh/v1beta1/queues/{DEFAULT_QUEUE}").status == 200)
        yield


def _definition(group: str, version: str, kind: str, plural: str, scope: str) -> Json:
    """Return a CustomResourceDefinition that accepts all fields."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served: Json = {
        "name": version,
        "served": True,
        "storage": True,
        "subresources": {} if kind in _WITHOUT_STATUS_PATH else {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [served],
        },
    }
