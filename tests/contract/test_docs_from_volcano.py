"""docs/guides/from-volcano.md: its Job starts as a whole and declares a walltime; its queue has the Queue's quota."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml

from support.snapshots import PROJECT
from zonewise_common.k8s.fields import FieldReader
from zonewise_scheduler.quota.api.declared_walltime import read_walltime
from zonewise_scheduler.quota.api.job_pod_sets import read_job_pod_set
from zonewise_scheduler.quota.api.queue_reader import read_cluster_queue
from zonewise_scheduler.quota.api.resource_quota import FlavorResource
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot

if TYPE_CHECKING:
    from zonewise_scheduler.quota.api.queue_types import ClusterQueue

GUIDE = (PROJECT / "docs/guides/from-volcano.md").read_text()
JOB, QUEUE = (yaml.safe_load(text) for text in re.findall(r"```yaml\n(.+?)```", GUIDE, re.DOTALL))
CPU = FlavorResource("all-nodes", "cpu")
MILLI = 1000


def amount(pattern: str) -> int:
    """Return a number of CPUs from the guide, in thousandths."""
    [text] = re.findall(pattern, GUIDE)
    return int(text) * MILLI


DESERVED = amount(r"(\d+) CPUs `deserved`")
CAPABILITY = amount(r"(\d+) as `capability`")
GUARANTEE = amount(r"(\d+) as `guarantee`")


def read_queue(name: str, quota: dict[str, Any]) -> ClusterQueue:
    """Return the guide's queue under another name, with another quota of CPUs."""
    [group] = QUEUE["spec"]["resourceGroups"]
    resources = [{"name": "cpu", **quota}]
    spec = {**QUEUE["spec"], "resourceGroups": [{**group, "flavors": [{"name": CPU.flavor, "resources": resources}]}]}
    queue, problems = read_cluster_queue({**QUEUE, "metadata": {"name": name}, "spec": spec})
    assert problems == ()
    return queue


def cohort() -> Snapshot:
    """Return the guide's queue in a cohort with a queue that has a large quota."""
    queue, problems = read_cluster_queue(QUEUE)
    assert problems == ()
    return Snapshot([queue, read_queue("others", {"nominalQuota": 1000})])


def test_the_queue_can_use_the_capability() -> None:
    assert cohort().cluster_queues["research"].available(CPU) == CAPABILITY


def test_other_queues_can_use_all_but_the_guarantee() -> None:
    assert cohort().cluster_queues["others"].available(CPU) == 1000 * MILLI + DESERVED - GUARANTEE


def test_the_nominal_quota_of_the_queue_is_its_deserved_amount() -> None:
    assert cohort().cluster_queues["research"].quotas[CPU].nominal == DESERVED


def test_the_job_starts_as_a_whole_and_declares_a_walltime() -> None:
    problems: list[str] = []
    pod_set = read_job_pod_set(FieldReader(JOB, "", problems))
    assert problems == []
    assert (pod_set.pods, pod_set.min_count) == (JOB["spec"]["completions"], None)
    assert read_walltime(JOB) == (float(JOB["spec"]["activeDeadlineSeconds"]), ())
