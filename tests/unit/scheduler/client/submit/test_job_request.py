"""The requests of a job, from sbatch's options."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import TYPE_CHECKING

import pytest

from zonewise_common.cli.command import CommandError
from zonewise_scheduler.client.submit.job_request import GPU, JobRequest, job_request
from zonewise_scheduler.commands.submit import add_arguments

if TYPE_CHECKING:
    from collections.abc import Mapping


def request(*arguments: str, path: str = "train.sh", environ: Mapping[str, str] | None = None) -> JobRequest:
    parser = ArgumentParser()
    add_arguments(parser)
    return job_request(parser.parse_args(["--image", "i", *arguments]), path, environ or {})


@pytest.mark.parametrize(
    ("arguments", "shape"),
    [
        ((), (1, 1, 1)),
        (("-N", "4"), (4, 1, 1)),
        (("-n", "64"), (64, 1, 1)),
        (("-n", "64", "-c", "2"), (64, 1, 2)),
        (("-N", "4", "-n", "32"), (4, 8, 8)),
        (("-N", "4", "--ntasks-per-node", "8", "-c", "4"), (4, 8, 32)),
        (("-n", "64", "--ntasks-per-node", "8"), (8, 8, 8)),
    ],
)
def test_pods_tasks_and_cpus(arguments: tuple[str, ...], shape: tuple[int, int, int]) -> None:
    job = request(*arguments)
    assert (job.pods, job.tasks_per_pod, job.cpus) == shape


@pytest.mark.parametrize(
    ("arguments", "devices"),
    [
        (("-N", "4", "--gpus", "8"), {GPU: 2}),
        (("-N", "4", "--gpus-per-node", "8"), {GPU: 8}),
        (("--gres", "gpu:8"), {GPU: 8}),
        (("--gres", "gpu:8,rdma/hca:2", "--gpus", "8"), {GPU: 8, "rdma/hca": 2}),
        (("--gpus-per-task", "2", "--ntasks-per-node", "4"), {GPU: 8}),
        (("--gpus", "2", "--gpu-resource", "amd.com/gpu"), {"amd.com/gpu": 2}),
        ((), {}),
    ],
)
def test_devices_of_each_pod(arguments: tuple[str, ...], devices: dict[str, int]) -> None:
    assert request(*arguments).devices == devices


def test_memory_of_each_pod() -> None:
    assert request().memory is None
    assert request("--mem", "16G").memory == 16 << 30
    assert request("--mem-per-cpu", "2G", "-c", "8").memory == 16 << 30
    assert request("--mem-per-gpu", "64G", "--gpus", "2").memory == 128 << 30


def test_the_name_of_a_claim_may_have_dots() -> None:
    """The names of most objects may have dots (IsDNS1123Subdomain)."""
    assert request("--pvc", "home.alice:/home").volumes == (("home.alice", "/home"),)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-N", "3", "-n", "32"), "-n 32 tasks cannot be spread evenly over 3 pods"),
        (("-N", "2", "-n", "32", "--ntasks-per-node", "8"), "more than --ntasks-per-node 8"),
        (("-n", "100001"), "100001 pods are more than the 100000 that a Job may have"),
        (("-N", "3", "--gpus", "8"), "--gpus: 8 is not a multiple of 3 pods"),
        (
            ("--gpus", "2", "--gpus-per-node", "4"),
            r"--gpus-per-node \(4 of each pod\) and --gpus \(2 of each pod\) differ",
        ),
        (("--gres", "craynetwork:1"), "--gres craynetwork: use the resource name of the nodes"),
        (("--mem", "1G", "--mem-per-cpu", "1G"), "set the memory only once"),
        (("--mem-per-gpu", "1G"), "--mem-per-gpu needs GPUs"),
        (("-a", "0-3", "-N", "2"), "each element of an array is one pod"),
        (("--mpi",), "--mpi needs several pods"),
        (("--export", "ALL"), "the environment of this machine has no meaning"),
        (("--export", "1A=2"), "'1A' is not a variable name"),
        (("--export", "MISSING"), "MISSING is not set here"),
        (("--node-selector", "gpu"), "'gpu' is not of the form KEY=VALUE"),
        (("--pvc", "data"), "'data' is not of the form CLAIM:/PATH"),
        (("--pvc", "a..b:/data"), "'a..b:/data' is not of the form CLAIM:/PATH"),
        (("-J", "___"), "'___' cannot become the name of a Job"),
        (("-J", "2024-run", "-N", "2"), "'2024-run': the name of a job with several pods must begin with a letter"),
    ],
)
def test_mistakes(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        request(*arguments)


def test_an_image_is_needed() -> None:
    parser = ArgumentParser()
    add_arguments(parser)
    with pytest.raises(CommandError, match=r"no image: name the container image with --image or \$ZONEWISE_IMAGE"):
        job_request(parser.parse_args([]), "a.sh", {})
    assert job_request(parser.parse_args([]), "a.sh", {"ZONEWISE_IMAGE": "i"}).image == "i"


@pytest.mark.parametrize(
    ("arguments", "path", "name"),
    [
        ((), "/home/me/My_Train.sh", "my-train"),
        ((), "-", "batch"),
        (("-J", "Run 7"), "x.sh", "run-7"),
        (("-J", "x" * 80), "x.sh", "x" * 52),
        ((), "job.sbatch", "job"),
    ],
)
def test_names(arguments: tuple[str, ...], path: str, name: str) -> None:
    assert request(*arguments, path=path).name == name


def test_queue_and_environment() -> None:
    environ = {"ZONEWISE_QUEUE": "gpu", "TOKEN": "t"}
    job = request("--export", "NONE,TOKEN,A=1", environ=environ)
    assert (job.queue, job.environment) == ("gpu", {"TOKEN": "t", "A": "1"})
    assert request("-p", "cpu", environ=environ).queue == "cpu"
    assert request().queue == "default"


def test_no_time_limit() -> None:
    assert request("-t", "0").walltime is None
    assert request("-t", "2h").walltime == 7200
