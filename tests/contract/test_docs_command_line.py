"""The guide to the command line is correct: its commands run on a cluster in memory, and print the output it shows."""

from __future__ import annotations

import os
import re
import shlex
import time
from argparse import ArgumentParser
from typing import TYPE_CHECKING, Any

import pytest

from support.command_cluster import GPU, CommandCluster, command_cluster, report
from support.console_guide import ConsoleStep, console_steps, form, with_outputs, write_files
from support.snapshots import PROJECT
from zonewise_common.cli.option_specs import option_specs
from zonewise_scheduler.client.describe.describe_job import JobContextFacts, describe_job
from zonewise_scheduler.client.describe.describe_node import describe_node
from zonewise_scheduler.client.describe.describe_pod import describe_pod
from zonewise_scheduler.client.jobs.job_facts import JobFacts
from zonewise_scheduler.client.jobs.pod_facts import PodFacts
from zonewise_scheduler.client.nodes.node_facts import NodeAvailability
from zonewise_scheduler.client.nodes.node_listing import list_nodes
from zonewise_scheduler.client.queues.queue_facts import QueueFacts
from zonewise_scheduler.client.queues.queue_listing import list_jobs, list_queues
from zonewise_scheduler.client.setup.setup_findings import Finding
from zonewise_scheduler.client.submit.job_objects import job_objects
from zonewise_scheduler.client.submit.job_request import JobRequest
from zonewise_scheduler.client.submit.sbatch_options import PASSED_OVER, REJECTED, add_sbatch_options
from zonewise_scheduler.client.submit.sbatch_values import parse_array
from zonewise_scheduler.controller.planning.forecaster import PERIOD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

GUIDE = PROJECT / "docs/guides/command-line.md"
RENEW = "ZONEWISE_RENEW_GUIDES"
"""Environment variable: if it is set, this run rewrites the guide."""
_PATIENCE, _PAUSE = 90.0, 1.0
"""Seconds; forecasts are recomputed each PERIOD."""
READERS = frozenset({"queue", "explain", "top", "forecast", "check"})

Json = dict[str, Any]


@pytest.fixture
def cluster() -> Iterator[CommandCluster]:
    """Return a cluster in which a notebook holds 6 CPUs and 3 GPUs of one zone."""
    with command_cluster() as running:
        path = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies/node-1"
        running.api.patch(path, {"zones": report("node-1", ((8, 4), (2, 1)))["zones"]}).ok()
        amounts = {"cpu": "6", "memory": "48Gi", GPU: "3"}
        container = {"name": "main", "image": "i", "resources": {"requests": amounts, "limits": amounts}}
        pod = {"metadata": {"name": "notebook"}, "spec": {"nodeName": "node-1", "containers": [container]}}
        running.api.post("/api/v1/namespaces/default/pods", pod).ok()
        yield running


def test_the_commands_print_what_the_guide_shows(
    cluster: CommandCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = GUIDE.read_text()
    write_files(page, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    outputs = [_output(step, cluster, monkeypatch, capsys) for step in console_steps(page)]
    if os.environ.get(RENEW):
        GUIDE.write_text(with_outputs(page, outputs))
    for step, output in zip(console_steps(page), outputs, strict=True):
        assert form(output) == form(step.output), step.command


def _output(
    step: ConsoleStep, cluster: CommandCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    """Return the output of a command of the guide; repeat a command that only reads until its output is the guide's."""
    words = shlex.split(step.command)
    match words:
        case ["pip", *_]:
            return step.output
        case ["export", assignment]:
            name, _, value = assignment.partition("=")
            if name != "KUBECONFIG":
                monkeypatch.setenv(name, value)
            return step.output
        case ["kubectl", "delete", "pod", name]:
            cluster.api.delete(f"/api/v1/namespaces/default/pods/{name}", gracePeriodSeconds=0)
            return f'pod "{name}" deleted from default namespace\n'
        case ["zonewise", command, *arguments]:
            latest = ""

            def run() -> bool:
                nonlocal latest
                _, out, err = cluster.run(capsys, command, *arguments)
                latest = err + out
                return form(latest) == form(step.output)

            if command in READERS:
                _wait(run)
            else:
                run()
            return latest
        case _:
            raise AssertionError(f"the guide has a command of an unknown kind: {step.command}")


def _wait(run: Callable[[], bool]) -> None:
    """Repeat until the function returns True or the time is over, with pauses, since each run costs CPU time."""
    if os.environ.get(RENEW):
        time.sleep(PERIOD)
        run()
        return
    started = time.monotonic()
    while not run() and time.monotonic() < started + _PATIENCE:
        time.sleep(_PAUSE)


# --- JSON


def test_the_guide_names_every_field_of_the_documents() -> None:
    job, pod = JobFacts("ns", "w", "Job", "batch/v1", "a", "gpu", "Pending"), PodFacts("ns", "p", "", "Pending", {})
    listed = list_jobs([job], 0.0, all_namespaces=False).document["items"][0]
    node = NodeAvailability("n")
    queues = list_queues([QueueFacts("ClusterQueue", "q")], [QueueFacts("LocalQueue", "l", "ns")]).document
    own = describe_job(job, JobContextFacts(), 0.0).document.keys() - listed.keys()
    documents: dict[str, Iterable[str]] = {
        "`queue`, in `clusterQueues`": queues["clusterQueues"][0],
        "`queue`, in `localQueues`": queues["localQueues"][0],
        "`queue --jobs`, in `items`": listed,
        "`explain JOB`": {"pods", *own},
        "`explain POD`": describe_pod(pod, None, (), 0.0).document,
        "`top`, in `items`": list_nodes([node]).document["items"][0],
        "`explain NODE`": {"pods"},
        "`check`, in `items`": Finding._fields,
    }
    assert describe_node(node, {}, 0.0, ()).document.keys() == set(documents["`top`, in `items`"])
    section = GUIDE.read_text().partition("### JSON")[2].partition("## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in section.splitlines() if line[:3] == "| `"
    ]
    assert {name: set(re.findall(r"`(\w+)`", fields)) for name, fields in rows} == {
        name: set(fields) for name, fields in documents.items()
    }


# --- from Slurm


SLURM = PROJECT / "docs/guides/from-slurm.md"


def test_the_page_for_slurm_users_has_every_option() -> None:
    page = SLURM.read_text()
    for names in (*PASSED_OVER, *REJECTED):
        assert any(f"`{flag}`" in page for flag in names.split()), names
    parser = ArgumentParser()
    add_sbatch_options(parser)
    for spec in option_specs(parser):
        if spec.flags not in {("-h", "--help"), ("--output-file",)}:
            assert any(f"`{flag}" in page for flag in spec.flags), spec.flags


def test_the_page_for_slurm_users_names_variables_that_are_set() -> None:
    request = JobRequest("a", "i", "q", 2, devices={GPU: 1}, gpus=1)
    array = JobRequest("a", "i", "q", array=parse_array("0-3"))
    texts = [str(job_objects(each, "#!/bin/sh\n")) for each in (request, array)]
    for name in re.findall(r"`(SLURM_[A-Z_]+|MASTER_ADDR)`", SLURM.read_text()):
        is_set = any(name in text for text in texts)
        assert is_set is (name not in {"SLURM_JOB_ID", "SLURM_NTASKS", "SLURM_PROCID"}), name
