"""Runs `zonewise simulate --repeat` on a cluster: prints or applies the Job, simulates a part, gathers the results."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from zonewise_common import __version__
from zonewise_common.cli.command import CommandError
from zonewise_common.cli.output import STANDARD_OUTPUT, write
from zonewise_common.k8s.yaml_dumper import kubectl_dumper
from zonewise_common.kube.errors import NotFound
from zonewise_common.kube.resources import CONFIG_MAPS, JOBS, PODS
from zonewise_scheduler.client.cluster.outage import OutageTolerance
from zonewise_scheduler.client.cluster.session import open_session
from zonewise_scheduler.commands.part_arguments import input_files, part_arguments
from zonewise_scheduler.commands.sweep import RunProgress, prepare_sweep, simulate_run, write_sweep
from zonewise_scheduler.simulator.sweep.indexed_job import INDEX_VARIABLE, SWEEP_LABEL, SweepJob
from zonewise_scheduler.simulator.sweep.part_document import PartError, part_text
from zonewise_scheduler.simulator.sweep.sweep_pods import image_problem, read_pods

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from zonewise_common.kube.client import Client
    from zonewise_scheduler.simulator.sweep.sweep_pods import PodResults
    from zonewise_scheduler.simulator.sweep.sweep_runs import RunResult, SweepRun

_FIELD_MANAGER = "zonewise-simulate"
_NAMESPACE = "default"
_PERIOD = 1.0
"""Seconds between two checks of the pods."""


def run_cluster_sweep(arguments: Namespace) -> None:
    """Print or apply the Job of a sweep, or gather its results. Raises CommandError, and KeyboardInterrupt."""
    sweep = prepare_sweep(arguments)
    job = _sweep_job(arguments, len(sweep.runs))
    if arguments.on_cluster == "print":
        objects = [each for each in (job.config_map, job.job) if each is not None]
        dumper = kubectl_dumper(yaml.SafeDumper)
        write(yaml.dump_all(objects, Dumper=dumper, sort_keys=False, width=10_000), STANDARD_OUTPUT)
    if arguments.on_cluster != "apply" and not arguments.gather:
        return
    with open_session(arguments) as session:
        if arguments.on_cluster == "apply":
            _apply(session.client, job)
        if arguments.gather:
            write_sweep(arguments, sweep, _gather(session.client, job, sweep.runs, RunProgress(arguments, sweep.runs)))


def run_part(arguments: Namespace) -> None:
    """Simulate the run of this pod's index and write its result. Raises CommandError."""
    runs = prepare_sweep(arguments).runs
    text = os.environ.get(INDEX_VARIABLE, "")
    if not (text.isascii() and text.isdecimal() and int(text) < len(runs)):
        raise CommandError(f"{INDEX_VARIABLE}: {text!r} is not the number of a run, from 0 to {len(runs) - 1}")
    run = runs[int(text)]
    try:
        write(part_text(run, simulate_run(arguments, run)), arguments.part)
    except PartError as error:
        raise CommandError(str(error)) from error


def _sweep_job(arguments: Namespace, runs: int) -> SweepJob:
    release = __version__.partition(".dev")[0].partition("+")[0]
    return SweepJob(
        arguments=part_arguments(arguments),
        runs=runs,
        parallelism=min(arguments.jobs_parallel or runs, runs),
        image=arguments.image or f"zonewise-scheduler:{release}",
        namespace=arguments.namespace or _NAMESPACE,
        files=input_files(arguments),
    )


def _apply(client: Client, job: SweepJob) -> None:
    if job.config_map is not None:
        client.apply(CONFIG_MAPS, job.config_map, field_manager=_FIELD_MANAGER)
    client.apply(JOBS, job.job, field_manager=_FIELD_MANAGER)
    remove = f"kubectl delete job,configmap -n {job.namespace} -l {SWEEP_LABEL}={job.name}"
    sys.stderr.write(
        f"zonewise: Job {job.namespace}/{job.name} has {job.runs} runs; the same command with --gather prints their "
        f"means; `{remove}` deletes it\n"
    )


class _Observation(NamedTuple):
    """The Job of a sweep, and its pods, which may end later than the Job."""

    state: str
    """The condition that ended the Job, or ""."""
    pods: Sequence[dict[str, Any]]


def _gather(client: Client, job: SweepJob, runs: Sequence[SweepRun], progress: RunProgress) -> list[RunResult]:
    """Return the results of all runs, once there are all. Raises CommandError for the first run that fails.

    Raises KubeError, but not for an outage of a server that has responded before.
    """
    observing = OutageTolerance(lambda: _observe(client, job), progress.note, "waiting until it responds")
    is_noted = False
    try:
        with progress:
            while True:
                observation = observing.result()
                if observation is not None:
                    done = read_pods(observation.pods, runs)
                    progress.show(len(done.results))
                    if not is_noted and (problem := image_problem(observation.pods)):
                        is_noted = True
                        progress.note(f"{problem}; --image names another one")
                    if len(done.results) == len(runs):
                        return [done.results[index] for index in range(len(runs))]
                    if observation.state:
                        raise CommandError(_lost_run(done, runs, observation.state))
                time.sleep(_PERIOD)
    except PartError as error:
        raise CommandError(str(error)) from error


def _observe(client: Client, job: SweepJob) -> _Observation:
    """Return the current state. Raises CommandError if the Job does not exist, and KubeError."""
    state = _job_state(client, job)  # before the pods: what ended it is among them
    selector = f"{SWEEP_LABEL}={job.name}"
    return _Observation(state, client.list(PODS, namespace=job.namespace, label_selector=selector).items)


def _lost_run(done: PodResults, runs: Sequence[SweepRun], state: str) -> str:
    """Return why the first run has no result, preferring runs whose pods failed."""
    lost = [index for index in range(len(runs)) if index not in done.results]
    failed = [index for index in lost if index in done.failures]
    if failed:
        return f"{runs[failed[0]]}: {done.failures[failed[0]]}"
    return f"{runs[lost[0]]}: the Job is {state}, and this run has no result"


def _job_state(client: Client, job: SweepJob) -> str:
    """Return the condition that ended the Job, or "". Raises CommandError if the Job does not exist."""
    try:
        status: dict[str, Any] = client.get(JOBS, job.name, namespace=job.namespace).get("status") or {}
    except NotFound:
        raise CommandError(
            f"there is no Job {job.namespace}/{job.name}: the same command with --on-cluster apply creates it"
        ) from None
    ended = ("Failed", "Complete")
    return next(
        (
            condition["type"]
            for condition in status.get("conditions") or ()
            if condition["type"] in ended and condition["status"] == "True"
        ),
        "",
    )
