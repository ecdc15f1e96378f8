"""`zonewise simulate --repeat --on-cluster`: the pods of an Indexed Job compute the same results as a local sweep.

The API server and the Job controller are the sandbox's. Instead of a kubelet, this process runs the same command with
the arguments, variables and files of the pod.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import threading
from typing import TYPE_CHECKING, Any, NoReturn, cast

import pytest
import yaml

from support.api import Api, Json
from support.cli_runner import CliRunner
from support.waiting import eventually
from zonewise.cli import main
from zonewise_common.kube.client import Client
from zonewise_common.kube.errors import TransportError
from zonewise_sandbox.apiserver import ApiServer
from zonewise_sandbox.jobcontroller import JobController
from zonewise_scheduler.commands import cluster_sweep, sweep
from zonewise_scheduler.simulator.cluster_simulation import SimulationError
from zonewise_scheduler.simulator.sweep.indexed_job import INDEX_ANNOTATION, INPUTS, MESSAGE_FILE, SWEEP_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MIX = ("hpc", "--nodes", "4x8", "--jobs", "30", "--repeat", "2")
JOBS = "jobs:\n- {name: a, count: 9, run: {uniform: [60, 7200]}, overestimate: 2, every: {exponential: 300}}\n"
FLEET = "levels: [{name: node, count: 3}]\nkinds: [{name: a, cpu: 2}]\n"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Api]:
    with ApiServer() as server, JobController(server.client_config()):
        yield Api(server.url)


@pytest.fixture
def simulating(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.setattr(cluster_sweep, "_PERIOD", 0.01)
    return CliRunner(tmp_path, capsys, "simulate")


class Containers:
    """Replaces the kubelets: runs the container of each pod of a sweep once, in this process."""

    def __init__(self, cluster: Api, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._cluster, self._directory, self._monkeypatch = cluster, directory, monkeypatch

    def run(self, sweep: str, pods: int) -> None:
        """Wait for `pods` pods of a sweep, and run them in descending order of the index."""
        selector = f"{PODS}?labelSelector={SWEEP_LABEL}={sweep}"
        eventually(lambda: len(self._cluster.get(selector).ok()["items"]) == pods)
        items = self._cluster.get(selector).ok()["items"]
        for pod in sorted(items, key=lambda one: int(one["metadata"]["annotations"][INDEX_ANNOTATION]), reverse=True):
            status, message = self._simulate(pod)
            end(self._cluster, pod, status, message)

    def _simulate(self, pod: Json) -> tuple[int, str]:
        (container,) = pod["spec"]["containers"]
        inputs, message = self._directory / "inputs", self._directory / "message"
        for volume in pod["spec"].get("volumes", ()):
            self._unpack(volume["configMap"], inputs)
        for variable in container["env"]:
            value = pod["metadata"]["annotations"][INDEX_ANNOTATION]
            assert INDEX_ANNOTATION in variable["valueFrom"]["fieldRef"]["fieldPath"]
            self._monkeypatch.setenv(variable["name"], value)
        arguments = [
            argument.replace(INPUTS, str(inputs)).replace(MESSAGE_FILE, str(message)) for argument in container["args"]
        ]
        return main(arguments), message.read_text()

    def _unpack(self, source: Json, inputs: Path) -> None:
        data = self._cluster.get(f"/api/v1/namespaces/default/configmaps/{source['name']}").ok()["binaryData"]
        for item in source["items"]:
            path = inputs / item["path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(base64.b64decode(data[item["key"]]))


@pytest.fixture
def containers(cluster: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Containers:
    return Containers(cluster, tmp_path, monkeypatch)


def end(cluster: Api, pod: Json, status: int, message: str) -> None:
    """End a pod as its kubelet would."""
    terminated = {"exitCode": status, "message": message, "finishedAt": "2026-01-01T00:00:00Z"}
    container = {"name": "simulate", "ready": False, "restartCount": 0, "image": "i", "imageID": ""}
    phase = "Failed" if status else "Succeeded"
    body = {"status": {"phase": phase, "containerStatuses": [{**container, "state": {"terminated": terminated}}]}}
    cluster.patch(f"{PODS}/{pod['metadata']['name']}/status", body).ok()


def applied(simulating: CliRunner, cluster: Api, *arguments: object) -> str:
    """Apply a sweep; return its name."""
    printed = simulating.run(*arguments, "--on-cluster", "apply", "--api-server", cluster.url)
    assert (printed.status, printed.out) == (0, "")
    assert printed.err.count("\n") == 1
    return printed.err.partition("Job default/")[2].partition(" ")[0]


@pytest.mark.parametrize("kind", ["mix", "files"])
def test_the_table_is_that_of_a_local_sweep(
    kind: str, simulating: CliRunner, cluster: Api, containers: Containers
) -> None:
    sweep: tuple[object, ...] = (*MIX, "--compare", "easy,greedy", "--loads", "0.5,0.9", "--seed", 4)
    if kind == "files":
        trace, nodes = simulating.write("jobs.yaml", JOBS), simulating.write("nodes.yaml", FLEET)
        sweep = (trace, "--nodes", nodes, "--repeat", 2, "--start-latency", "1-2s", "--reserve-after", "90m")
    local = simulating.run(*sweep)
    name = applied(simulating, cluster, *sweep)
    containers.run(name, 8 if kind == "mix" else 2)
    assert simulating.run(*sweep, "--gather", "--api-server", cluster.url) == local


def test_the_printed_objects_are_the_applied_ones(simulating: CliRunner, cluster: Api) -> None:
    trace = simulating.write("jobs.yaml", JOBS)
    sweep = (trace, "--nodes", "3x4", "--repeat", 3, "--jobs-parallel", 2)
    printed: list[Any] = [*yaml.safe_load_all(simulating.run(*sweep, "--on-cluster").out)]
    name = applied(simulating, cluster, *sweep)
    assert [each["metadata"]["name"] for each in printed] == [name, name]
    for each, path in zip(printed, ("/api/v1/{}/configmaps", "/apis/batch/v1/{}/jobs"), strict=True):
        stored = cluster.get(f"{path.format('namespaces/default')}/{name}").ok()
        assert covers(stored, each)


def covers(stored: Any, expected: Any) -> bool:
    """Return whether an object has all fields of another one."""
    if isinstance(expected, dict):
        fields = cast("dict[str, Any]", expected)
        return all(key in stored and covers(stored[key], value) for key, value in fields.items())
    if isinstance(expected, list):
        items = cast("list[Any]", expected)
        return len(stored) == len(items) and all(map(covers, stored, items))
    return bool(stored == expected)


def test_results_are_awaited(simulating: CliRunner, cluster: Api, containers: Containers) -> None:
    sweep = (*MIX, "--policy", "easy", "--seed", 7)
    local = simulating.run(*sweep, "--json")
    name = applied(simulating, cluster, *sweep)
    gathered: list[int] = []
    arguments = ["simulate", *map(str, sweep), "--json", str(simulating.directory / "all.json"), "--quiet"]
    thread = threading.Thread(
        target=lambda: gathered.append(main([*arguments, "--gather", "--api-server", cluster.url]))
    )
    thread.start()
    containers.run(name, 2)
    thread.join(60)
    assert gathered == [0]
    assert (simulating.directory / "all.json").read_text() == local.out


def test_a_pod_that_waits_for_its_image_is_named_once(
    simulating: CliRunner, cluster: Api, containers: Containers, capsys: pytest.CaptureFixture[str]
) -> None:
    """The default image has no registry, and a Job with it never ends."""
    sweep = (*MIX, "--policy", "easy", "--seed", 13)
    name = applied(simulating, cluster, *sweep)
    selector = f"{PODS}?labelSelector={SWEEP_LABEL}={name}"
    eventually(lambda: len(cluster.get(selector).ok()["items"]) == 2, 60)
    first = cluster.get(selector).ok()["items"][0]["metadata"]["name"]
    container = {"name": "simulate", "ready": False, "restartCount": 0, "image": "i", "imageID": ""}
    waiting = {**container, "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    body = {"status": {"phase": "Pending", "containerStatuses": [waiting]}}
    cluster.patch(f"{PODS}/{first}/status", body).ok()
    gathered: list[int] = []
    arguments = ["simulate", *map(str, sweep), "--gather", "--api-server", cluster.url]
    thread = threading.Thread(target=lambda: gathered.append(main(arguments)))
    thread.start()
    printed: list[str] = []

    def is_noted() -> bool:
        printed.append(capsys.readouterr().err)
        return f"zonewise: note: pod {first}: ImagePullBackOff; --image names another one\n" in "".join(printed)

    eventually(is_noted, 60)
    containers.run(name, 2)
    thread.join(60)
    assert gathered == [0]
    assert ("".join(printed) + capsys.readouterr().err).count("ImagePullBackOff") == 1


def test_results_are_awaited_through_an_outage(
    simulating: CliRunner, cluster: Api, containers: Containers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runs end after the second failed request. The outage is reported once."""
    sweep = (*MIX, "--policy", "easy", "--seed", 17)
    local = simulating.run(*sweep)
    name = applied(simulating, cluster, *sweep)
    list_objects, requests = Client.list, itertools.count()

    def failing_list(client: Client, *arguments: Any, **options: Any) -> Any:
        number = next(requests)
        if number in {1, 2}:
            raise TransportError("connection refused")
        if number == 3:
            containers.run(name, 2)
        return list_objects(client, *arguments, **options)

    monkeypatch.setattr(Client, "list", failing_list)
    gathered = simulating.run(*sweep, "--gather", "--api-server", cluster.url)
    assert (gathered.status, gathered.out) == (0, local.out)
    assert gathered.err.splitlines() == [
        "zonewise: note: the API server: connection refused; waiting until it responds",
        "zonewise: note: the API server responds again",
    ]


def test_a_failed_run_is_an_error_with_its_last_output(simulating: CliRunner, cluster: Api) -> None:
    """Each index gets a second pod; after its failure, the Job ends."""
    sweep = (*MIX, "--policy", "greedy", "--seed", 9)
    name = applied(simulating, cluster, *sweep)
    selector = f"{PODS}?labelSelector={SWEEP_LABEL}={name}"

    def failed() -> bool:
        for pod in cluster.get(selector).ok()["items"]:
            if pod["status"].get("phase") not in ("Succeeded", "Failed"):
                with contextlib.suppress(AssertionError):  # the Job controller may have deleted the pod
                    end(cluster, pod, 2, "zonewise: error: out of luck\n")
        conditions = cluster.get(f"/apis/batch/v1/namespaces/default/jobs/{name}").ok()["status"].get("conditions", ())
        return any(each["type"] == "Failed" for each in conditions)

    eventually(failed, 60)
    message = simulating.usage_error(*sweep, "--gather", "--api-server", cluster.url)
    assert message == "greedy, seed 9: zonewise: error: out of luck"


def test_a_job_whose_pods_are_gone_has_no_results(simulating: CliRunner, cluster: Api, containers: Containers) -> None:
    sweep = (*MIX, "--policy", "fifo")
    name = applied(simulating, cluster, *sweep)
    containers.run(name, 2)
    path = f"/apis/batch/v1/namespaces/default/jobs/{name}"
    eventually(lambda: "completionTime" in cluster.get(path).ok()["status"])
    for pod in cluster.get(f"{PODS}?labelSelector={SWEEP_LABEL}={name}").ok()["items"]:
        cluster.delete(f"{PODS}/{pod['metadata']['name']}").ok()
    message = simulating.usage_error(*sweep, "--gather", "--api-server", cluster.url)
    assert message == "fifo, seed 0: the Job is Complete, and this run has no result"


def test_results_of_no_job_cannot_be_gathered(simulating: CliRunner, cluster: Api) -> None:
    message = simulating.usage_error(*MIX, "--seed", 11, "--gather", "--api-server", cluster.url)
    assert message.startswith("there is no Job default/sweep-")
    assert message.endswith("the same command with --on-cluster apply creates it")


@pytest.mark.parametrize("index", ["", "2", "-1", "x"])
def test_a_part_needs_an_index(index: str, simulating: CliRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOB_COMPLETION_INDEX", index)
    message = simulating.usage_error(*MIX, "--part", "-")
    assert message == f"JOB_COMPLETION_INDEX: {index!r} is not the number of a run, from 0 to 1"


@pytest.mark.parametrize("option", ["--on-cluster", "--gather", "--part=x"])
def test_these_options_require_repeat(option: str, simulating: CliRunner) -> None:
    assert simulating.usage_error("hpc", option) == f"{option.partition('=')[0]} works only with --repeat"


def test_a_printed_job_has_no_results_yet(simulating: CliRunner) -> None:
    message = simulating.usage_error(*MIX, "--on-cluster", "--gather")
    assert message.startswith("--gather works with --on-cluster apply, or after it")


@pytest.mark.parametrize("what", ["print", "apply"])
def test_a_job_that_is_not_gathered_has_no_numbers(what: str, simulating: CliRunner) -> None:
    message = simulating.usage_error(*MIX, "--on-cluster", what, "--json", "out.json")
    assert message == "--json works only with --gather: --on-cluster alone has no results yet"


def test_a_part_that_fails_reports_the_reason(simulating: CliRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> NoReturn:
        raise SimulationError("ns/a: it will not come to an end")

    monkeypatch.setattr(sweep, "run_policy", fail)
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "0")
    assert simulating.usage_error(*MIX, "--part", "-") == "ns/a: it will not come to an end"


def test_large_files_belong_in_the_image(simulating: CliRunner) -> None:
    trace = simulating.write("jobs.yaml", JOBS + "#" * (1 << 20))
    sweep = (trace, "--nodes", "3x4", "--repeat", 2, "--on-cluster")
    message = simulating.usage_error(*sweep)
    assert "but a ConfigMap holds at most 1048576: put them into the image" in message
    (job,) = yaml.safe_load_all(simulating.run(*sweep, "--inputs", "/traces").out)
    spec = job["spec"]["template"]["spec"]
    assert spec["containers"][0]["args"][1] == "/traces/jobs.yaml"
    assert "volumes" not in spec
