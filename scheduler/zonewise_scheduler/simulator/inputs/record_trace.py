"""Reads records of the live queue as a trace: the jobs of a cluster, to simulate other policies or nodes.

Each job is submitted when its Workload was created. A job with several records was evicted in between, and the work of
an evicted run is lost. Its run time is therefore that of its last run. If that run was evicted too, the run time is a
lower bound. A job that never started has no known run time, and is left out.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from zonewise_scheduler.accounting.record_lines import RecordReader
from zonewise_scheduler.accounting.run_record import LINE_START
from zonewise_scheduler.quota.api.amount import resource_value
from zonewise_scheduler.quota.api.declared_walltime import history_groups
from zonewise_scheduler.quota.api.workload_types import PodSet, Workload
from zonewise_scheduler.simulator.inputs.node_fleet import build_fleet_scenario, build_queues
from zonewise_scheduler.simulator.inputs.source_files import InputError
from zonewise_scheduler.simulator.scenario import Arrival

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_scheduler.accounting.run_record import PodSetRecord, RunRecord
    from zonewise_scheduler.simulator.inputs.node_fleet import Fleet
    from zonewise_scheduler.simulator.scenario import Scenario


def is_records(head: bytes) -> bool:
    """Return whether a file consists of records, judging by its first bytes."""
    return head.startswith(LINE_START)


def build_record_scenario(lines: Iterable[bytes], fleet: Fleet, name: str) -> Scenario:
    """Return the jobs of records on a fleet, whose ClusterQueues have equal shares of it.

    Invalid records are reported as problems. Raises InputError if no job is left.
    """
    reader = RecordReader()
    last: dict[str, RunRecord] = {}
    never_started: set[str] = set()
    for record in reader.read(lines, name):
        if record.started is None:
            never_started.add(record.uid)
        elif record.uid not in last or record.ended >= last[record.uid].ended:
            last[record.uid] = record
    problems = [str(problem) for problem in reader.problems]
    left_out = len(never_started - last.keys())
    if left_out:
        problems.append(f"{name}: jobs that never started are left out: {left_out}")
    records = sorted(last.values(), key=lambda record: (record.created, record.ended))
    if not records:
        raise InputError(name, "; ".join(["no job has started", *problems]))
    begin = records[0].created
    arrivals: list[Arrival] = []
    for record in records:
        try:
            arrivals.append(_arrival(record, begin))
        except ValueError as error:
            problems.append(f"{name}: job {record.namespace}/{record.name}: {error}")
    if not arrivals:
        raise InputError(name, "; ".join(["no job can be used", *problems]))
    queues = build_queues(fleet, sorted({arrival.queue for arrival in arrivals}))
    return build_fleet_scenario(name, fleet, arrivals, queues, problems)


def _arrival(record: RunRecord, begin: float) -> Arrival:
    """Return the job of its last record; `begin`: the first submission. Raises ValueError for an invalid quantity."""
    workload = Workload(
        record.namespace,
        record.name,
        tuple(_pod_set(each) for each in record.pod_sets),
        uid=record.uid,
        queue_name=record.queue,
        priority=record.priority,
        created_at=record.created - begin,
        walltime=inf if record.walltime is None else record.walltime,
        history_keys=history_groups(record.namespace, record.user or "", record.queue, record.name),
    )
    return Arrival(workload, record.cluster_queue, record.run_time, record.kind)


def _pod_set(record: PodSetRecord) -> PodSet:
    requests = {name: resource_value(name, quantity) for name, quantity in record.requests.items()}
    return PodSet(record.name, record.pods, requests)
