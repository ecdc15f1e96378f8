"""User commands on a cluster in memory with the real controller: each command sees the effects of the others."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest
import yaml

from support.api import STRATEGIC
from support.command_cluster import GPU, CommandCluster, command_cluster, report, restore_nodes, until_state
from support.programs import terminal_signals
from support.waiting import PATIENCE, eventually
from zonewise.cli import main, main_of_kubectl

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Json = dict[str, Any]

SCRIPT = """\
#!/bin/sh
#SBATCH --gpus-per-node=8 -c 4 --mem=16G
#SBATCH --time=30
#SBATCH -p gpu
echo train
"""


@pytest.fixture(scope="module")
def shared() -> Iterator[CommandCluster]:
    """Return a cluster that all tests of this file share."""
    with command_cluster() as running:
        yield running


@pytest.fixture
def cluster(shared: CommandCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[CommandCluster]:
    """Return the shared cluster without jobs, and with its original nodes."""
    for name in ("KUBECONFIG", "ZONEWISE_SERVER", "ZONEWISE_QUEUE", "NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ZONEWISE_IMAGE", "image:1")
    yield shared
    restore_nodes(shared.api)
    for name in (
        entry["metadata"]["name"] for entry in shared.api.get("/apis/batch/v1/namespaces/default/jobs").ok()["items"]
    ):
        shared.api.delete(f"/apis/batch/v1/namespaces/default/jobs/{name}", propagationPolicy="Background")
    eventually(
        lambda: not shared.live.workloads() and not shared.api.get("/api/v1/namespaces/default/pods").ok()["items"]
    )


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "train.sh"
    path.write_text(SCRIPT)
    return str(path)


def rows(text: str) -> list[list[str]]:
    """Return the words of each line of a table."""
    return [line.split() for line in text.splitlines()]


def jobs(cluster: CommandCluster, capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Json]:
    """Return the jobs that `zonewise queue` lists, by name."""
    status, out, _ = cluster.run(capsys, "queue", "--jobs", "-o", "json", *arguments)
    assert status == 0
    return {item["name"]: item for item in json.loads(out)["items"]}


def submit_train(cluster: CommandCluster, capsys: pytest.CaptureFixture[str], script: str, *names: str) -> None:
    """Submit jobs one after another; the first two use up all GPUs."""
    for index, name in enumerate(names):
        status, out, _ = cluster.run(capsys, "submit", script, "-J", name, "--parsable")
        assert (status, out) == (0, f"{name}\n")
        if index < 2:  # jobs submitted within one second have no defined order
            until_state(cluster, name, "Admitted")


def test_submit_queue_and_explain(cluster: CommandCluster, capsys: pytest.CaptureFixture[str], script: str) -> None:
    submit_train(cluster, capsys, script, "a", "b", "c")
    eventually(lambda: jobs(cluster, capsys).get("c", {}).get("position") == 1)
    listed = jobs(cluster, capsys)
    assert [item["state"] for item in listed.values()] == ["Admitted", "Admitted", "Pending"]
    assert listed["a"]["walltimeSeconds"] == 1800
    status, out, err = cluster.run(capsys, "explain", "c")
    assert (status, err) == (0, "")
    assert "number 1 in its ClusterQueue" in out
    assert "needs 8 nvidia.com/gpu of flavor h100" in out
    assert "MUST END FIRST" in out
    assert ["a", "Admitted"] in [row[:2] for row in rows(out)] or ["b", "Admitted"] in [row[:2] for row in rows(out)]
    used = ["nvidia.com/gpu", "h100", "16", "16"]
    eventually(lambda: used in rows(cluster.run(capsys, "queue")[1]))  # a status is written up to 5 s late
    _, out, _ = cluster.run(capsys, "queue", "gpu", "-o", "name")
    assert sorted(out.split()) == ["job.batch/a", "job.batch/b", "job.batch/c"]
    status, out, err = cluster.run(capsys, "queue", "none")
    assert (status, out) == (1, "")
    assert "there is no queue none in namespace default" in err


def test_the_objects_of_a_job_are_deleted_with_it(
    cluster: CommandCluster, capsys: pytest.CaptureFixture[str], script: str
) -> None:
    status, out, _ = cluster.run(capsys, "submit", script, "-J", "pair", "-N", "2", "--gpus-per-node", "4")
    assert (status, out.partition(":")[0]) == (0, "Submitted batch job pair to queue gpu")
    paths = [f"/api/v1/namespaces/default/{kind}/pair" for kind in ("configmaps", "services")]
    config_map = cluster.api.get(paths[0]).ok()
    assert config_map["data"]["script"] == SCRIPT
    assert [owner["name"] for owner in config_map["metadata"]["ownerReferences"]] == ["pair"]
    status, out, err = cluster.run(capsys, "cancel", "pair", "none")
    assert (status, out) == (1, "Job default/pair is cancelled\n")
    assert "there is no job none in namespace default" in err
    eventually(lambda: all(cluster.api.get(path).status == 404 for path in paths))


def test_a_name_that_exists_gets_a_number(
    cluster: CommandCluster, capsys: pytest.CaptureFixture[str], script: str
) -> None:
    names = [cluster.run(capsys, "submit", script, "-o", "name")[1].strip() for _ in range(3)]
    assert names == ["job.batch/train", "job.batch/train-2", "job.batch/train-3"]


def test_hold_and_release(cluster: CommandCluster, capsys: pytest.CaptureFixture[str], script: str) -> None:
    submit_train(cluster, capsys, script, "a", "b", "c")
    eventually(lambda: "c" in jobs(cluster, capsys))
    status, out, err = cluster.run(capsys, "hold", "a", "c")
    assert (status, out) == (1, "Job default/c is held\n")
    assert "Job default/a is Admitted: --requeue stops and holds it" in err
    eventually(lambda: jobs(cluster, capsys)["c"]["state"] == "Held")
    assert cluster.run(capsys, "hold", "--dry-run", "--requeue", "a")[1] == "Job default/a is held (dry run)\n"
    assert cluster.run(capsys, "cancel", "a")[0] == 0
    eventually(lambda: "a" not in jobs(cluster, capsys))
    assert jobs(cluster, capsys)["c"]["state"] == "Held"
    assert cluster.run(capsys, "release", "c")[1] == "Job default/c is released\n"
    until_state(cluster, "c", "Admitted")
    assert cluster.run(capsys, "hold", "--requeue", "c")[1] == "Job default/c is held\n"
    eventually(lambda: jobs(cluster, capsys)["c"]["state"] == "Held")
    assert cluster.live.is_held("c")


def test_states_and_columns_select_and_sort_jobs_without_a_queue(
    cluster: CommandCluster, capsys: pytest.CaptureFixture[str], script: str
) -> None:
    submit_train(cluster, capsys, script, "b", "a", "c")
    eventually(lambda: "c" in jobs(cluster, capsys))
    for arguments, names in [
        (("--state", "pending"), ["c"]),
        (("--state", "admitted,held", "--sort-by", "name"), ["a", "b"]),
        (("--sort-by", "name"), ["a", "b", "c"]),
    ]:
        _, out, _ = cluster.run(capsys, "queue", *arguments, "-o", "name")
        assert out.split() == [f"job.batch/{name}" for name in names]
    _, out, _ = cluster.run(capsys, "queue", "--state", "finished")
    assert out.startswith("There are no such jobs")


def test_the_jobs_of_a_user(cluster: CommandCluster, capsys: pytest.CaptureFixture[str], script: str) -> None:
    """No webhook is served here, so the Jobs keep the users that they claim."""
    me = "admin"
    for name, user in (("a", me), ("b", "ben"), ("c", "")):
        _, manifest, _ = cluster.run(capsys, "submit", script, "-J", name, "--dry-run", "-o", "json")
        job = next(obj for obj in json.loads(manifest)["items"] if obj["kind"] == "Job")
        job["metadata"]["annotations"] = {"zonewise.dev/submitted-by": user} if user else {}
        cluster.api.post("/apis/batch/v1/namespaces/default/jobs", job).ok()
    eventually(lambda: jobs(cluster, capsys).keys() == {"a", "b", "c"})
    for arguments, names in ((("--me",), ["a"]), (("-u", "ben"), ["b"]), (("-u", "none"), [])):
        _, out, _ = cluster.run(capsys, "queue", *arguments, "-o", "name")
        assert out.split() == [f"job.batch/{name}" for name in names]
    assert {name: job["user"] for name, job in jobs(cluster, capsys).items()} == {"a": me, "b": "ben", "c": None}
    assert ["user", "ben"] in rows(cluster.run(capsys, "explain", "b")[1])


def test_a_namespace_without_a_queue(cluster: CommandCluster, capsys: pytest.CaptureFixture[str]) -> None:
    note = "There is no LocalQueue in namespace elsewhere; `zonewise queue -A` lists all."
    assert note in cluster.run(capsys, "queue", "-n", "elsewhere")[1]
    for arguments in ((), ("-A",)):
        assert "There is no LocalQueue" not in cluster.run(capsys, "queue", *arguments)[1]


def test_the_setup_of_a_cluster(cluster: CommandCluster, capsys: pytest.CaptureFixture[str]) -> None:
    """The queue of the cluster is sound; a LocalQueue of no ClusterQueue is not."""
    eventually(lambda: cluster.run(capsys, "check")[0] == 0)
    status, out, err = cluster.run(capsys, "check", "-o", "json")
    assert (status, err) == (0, "")
    found = {item["check"]: item["result"] for item in json.loads(out)["items"]}
    assert found.keys() == {"nodes", "reports", "alignment", "schedulers", "controller", "queues", "flavors"}
    assert (found["reports"], found["controller"], found["queues"]) == ("ok", "ok", "ok")
    path = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/localqueues"
    lost = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "metadata": {"name": "lost"}}
    cluster.api.post(path, {**lost, "spec": {"clusterQueue": "nowhere"}}).ok()
    try:
        message = "error: LocalQueue default/lost admits nothing"
        eventually(lambda: message in cluster.run(capsys, "check")[1])
        assert cluster.run(capsys, "check")[0] == 1
    finally:
        cluster.api.delete(f"{path}/lost").ok()


def test_a_dependency(cluster: CommandCluster, capsys: pytest.CaptureFixture[str], script: str) -> None:
    submit_train(cluster, capsys, script, "first")
    assert cluster.run(capsys, "submit", script, "-J", "second", "-d", "afterok:first")[0] == 0
    second = jobs(cluster, capsys)["second"]
    assert (second["reason"], second["message"]) == ("Dependency", "waits for Job first to succeed")
    assert "waits for Job first to succeed" in cluster.run(capsys, "explain", "second")[1]
    for pod in cluster.live.pods("first"):
        eventually(lambda: bool(cluster.live.running_pods("first")))
        path = f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}/status"
        cluster.api.patch(path, {"status": {"phase": "Succeeded"}}).ok()
    until_state(cluster, "second", "Admitted")
    status, _, err = cluster.run(capsys, "submit", script, "-d", "afterok:none")
    assert status == 2
    assert "-d afterok:none: no such Job in namespace default" in err


def test_forecast(cluster: CommandCluster, capsys: pytest.CaptureFixture[str], script: str) -> None:
    asked = ("--pods", "2", "--gpus", "16", "-p", "gpu", "-t", "1h")
    eventually(lambda: "start     at once" in cluster.run(capsys, "forecast", *asked)[1])
    submit_train(cluster, capsys, script, "a", "b")
    status, out, _ = cluster.run(capsys, "forecast", *asked, "-o", "json")
    body = json.loads(out)
    assert (status, body["startsNow"], body["position"]) == (0, False, 1)
    assert body["forecast"]["likely"] is not None
    assert len(cluster.live.workloads()) == 2
    status, out, _ = cluster.run(capsys, "forecast", "--pods", "64", "--gpus-per-node", "8", "-p", "gpu")
    assert (status, "cannot start even when all other workloads have ended" in out) == (1, True)


def test_top_and_explain_of_nodes_and_pods(
    cluster: CommandCluster, capsys: pytest.CaptureFixture[str], script: str
) -> None:
    path = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies/node-1"
    cluster.api.patch(path, {"zones": report("node-1", ((8, 4), (2, 1)))["zones"]}).ok()
    submit_train(cluster, capsys, script, "a")
    eventually(lambda: bool(cluster.live.running_pods("a")))
    _, out, err = cluster.run(capsys, "top", "-o", "json")
    nodes = {item["name"]: item for item in json.loads(out)["items"]}
    assert err == ""
    assert nodes["node-1"]["largestShare"] == 0.8
    assert [zone["resources"][GPU]["available"] for zone in nodes["node-1"]["zones"]] == [4, 1]
    assert sorted(int(item["free"][GPU]) for item in nodes.values()) == [0, 8]
    status, _, err = cluster.run(capsys, "top", "node-9")
    assert (status, "there is no node node-9" in err) == (1, True)
    [pod] = cluster.live.pods("a")
    _, out, _ = cluster.run(capsys, "explain", f"pod/{pod['metadata']['name']}")
    assert ["node", pod["spec"]["nodeName"]] in rows(out)
    _, out, _ = cluster.run(capsys, "explain", pod["spec"]["nodeName"])
    assert f"default/{pod['metadata']['name']}" in out
    condition = {"type": "GpuFallenOff", "status": "True", "reason": "XID79", "message": "GPU 3 has fallen off the bus"}
    cluster.api.patch("/api/v1/nodes/node-1/status", {"status": {"conditions": [condition]}}, STRATEGIC).ok()
    _, out, _ = cluster.run(capsys, "explain", "node/node-1")
    assert "GpuFallenOff: XID79: GPU 3 has fallen off the bus" in out


def test_without_the_read_api_only_the_objects_are_shown(
    cluster: CommandCluster, capsys: pytest.CaptureFixture[str], script: str
) -> None:
    submit_train(cluster, capsys, script, "a")
    for way in ((), ("--server", "http://127.0.0.1:1")):
        status = main(["queue", "--jobs", *cluster.arguments(read_api=False), *way])
        out = capsys.readouterr().out
        assert status == 0
        assert ["a", "Admitted"] in [row[:2] for row in rows(out)]
        assert "Positions and forecasts are missing because of the controller's read API: " in out


def test_dry_run_prints_what_kubectl_can_apply(
    cluster: CommandCluster, capsys: pytest.CaptureFixture[str], script: str
) -> None:
    status, out, _ = cluster.run(capsys, "submit", script, "--dry-run", "-o", "yaml")
    objects = list(yaml.safe_load_all(out))
    assert (status, [obj["kind"] for obj in objects]) == (0, ["ConfigMap", "Job"])
    for obj, path in zip(
        objects, ("/api/v1/namespaces/default/configmaps", "/apis/batch/v1/namespaces/default/jobs"), strict=True
    ):
        cluster.api.post(path, obj).ok()
    until_state(cluster, "train", "Admitted")
    cluster.api.delete("/api/v1/namespaces/default/configmaps/train")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("queue", "--kubeconfig", "/none"), "the kubeconfig: there is no file /none"),
        (("queue", "--api-server", "http://127.0.0.1:1"), "check that http://127.0.0.1:1 is up"),
        (("queue", "--server", "localhost"), "--server: 'localhost' is not a URL, such as http://127.0.0.1:9821"),
        (("queue", "--server", "http://[::1"), "--server: 'http://[::1' is not a URL"),
        (("queue", "--api-server", "http://[::1"), "http://[::1: Invalid IPv6 URL"),
        (("queue", "-o", "xml"), "invalid choice: 'xml'"),
        (("submit", "/none.sh"), "/none.sh: cannot be read: No such file or directory"),
        (
            ("submit", "--wrap", "true", "-p", "none"),
            "there is no LocalQueue none in namespace default: select one with -p",
        ),
        (("submit", "--wrap", "true", "-N", "0"), "argument -N/--nodes: '0' is not a positive whole number"),
        (("submit", "--wrap", "true", "--exclusive"), "--exclusive is not supported: request all CPUs"),
        (("explain", "none"), "there is no job, pod or node none in namespace default; `zonewise queue --jobs -A`"),
        (("explain", "a/b/../c"), "there is no job a/b/../c in namespace default; `zonewise queue --jobs -A`"),
        (("explain", "pod/none"), "there is no pod none in namespace default"),
        (("explain", "node/none"), "there is no node none; `zonewise top` lists all nodes"),
        (("forecast", "--pods", "3", "--gpus", "8"), "--gpus: 8 is not a multiple of 3 pods; use --gpus-per-node"),
        (("forecast", "-t", "soon"), "argument -t/--time: 'soon' is not a time limit"),
    ],
)
def test_mistakes_are_one_line(
    cluster: CommandCluster, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    reaches = {"--kubeconfig", "--api-server"} & set(arguments)
    status = main([*arguments, *(() if reaches else cluster.arguments(read_api=False))])
    said = capsys.readouterr()
    assert status in (1, 2)
    lines = [line for line in said.err.splitlines() if ": note:" not in line]
    assert len(lines) == 1
    assert message in lines[0]


def test_no_cluster_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert main(["queue"]) == 2
    assert "set a kubeconfig with --kubeconfig or $KUBECONFIG" in capsys.readouterr().err


def test_kubectl_runs_the_program_as_a_plugin(
    cluster: CommandCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["kubectl-zonewise", "queue", *cluster.arguments()])
    assert main_of_kubectl() == 0
    assert "CLUSTERQUEUE" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["kubectl-zonewise", "queue", "--help"])
    assert main_of_kubectl() == 0
    assert capsys.readouterr().out.startswith("usage: kubectl zonewise queue ")


def test_a_watch_ends_by_ctrl_c(
    cluster: CommandCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("zonewise_common.cli.redraw.time.sleep", interrupt)
    status, out, _ = cluster.run(capsys, "top", "--watch")
    assert (status, out.count("NODE")) == (130, 1)


def test_the_page_ends_with_its_command(cluster: CommandCluster) -> None:
    """The printed address serves the data, and Ctrl-C stops the program without output."""
    code = "import sys; from zonewise.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "page", "--port", "0", *cluster.arguments()]
    with terminal_signals():
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        address = urlsplit(str(process.stdout.readline()).strip())
        token = address.fragment.removeprefix("token=")
        request = Request(f"http://{address.netloc}/api/v1/queues", headers={"X-Zonewise-Token": token})
        with urlopen(request, timeout=PATIENCE) as response:  # noqa: S310 -- an address of loopback
            assert response.status == 200
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (0, "")


def test_the_page_without_a_controller(cluster: CommandCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["page", *cluster.arguments(read_api=False)]) == 2
    assert "the controller: there is no controller in namespace zonewise" in capsys.readouterr().err


def test_no_linux_module_and_no_array_library_is_imported() -> None:
    """The commands work on macOS with only the extra `client`."""
    names = ("queue", "explain", "top", "submit", "cancel", "hold", "release", "forecast", "page", "check")
    modules = (
        "cluster.session", "cluster.page_server", "describe.explaining", "describe.describe_forecast",
        "jobs.job_actions", "nodes.node_reading", "submit.submission",
    )  # fmt: skip
    imports = [
        *(f"zonewise_scheduler.commands.{name}" for name in names),
        *(f"zonewise_scheduler.client.{name}" for name in modules),
    ]
    heavy = ("numpy", "grpc", "prometheus_client", "pynvml", "zonewise.machine", "zonewise_sandbox")
    code = f"import sys, {', '.join(imports)}; print([name for name in {heavy!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"
