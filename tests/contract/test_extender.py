"""`zonewise scheduler --extender-only` between kube-scheduler, played here, and an embedded API server."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from support.extender import Caller, Extender, ExtenderCluster, build_pod, new_cluster, plain_nrt, running_extender
from support.ledger_kubelets import SHARED, SINGLE, Kubelet, node_kind, pod_shape
from support.ports import reserved_port
from support.waiting import eventually
from zonewise.cli import main
from zonewise_scheduler.admission.node import idle_node

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from zonewise_scheduler.admission.pod import PodShape

KIND = node_kind(SINGLE, gpus=0)
HALF, MOST, WHOLE = pod_shape((4, 0)), pod_shape((5, 0)), pod_shape((8, 0))
CONDITION = "zonewise.dev/ZonesFree"


class Site:
    """A cluster of idle nodes with two zones of eight CPUs, and an extender that knows it."""

    def __init__(self, world: ExtenderCluster, extender: Extender, kubelets: dict[str, Kubelet]) -> None:
        self.world, self.extender, self.kubelets = world, extender, kubelets
        extender.until(extender.ready)
        self.caller = Caller(extender)

    def create(self, name: str, shape: PodShape = MOST) -> dict[str, Any]:
        return self.world.create(build_pod(name, shape))

    def ask(self, pod: dict[str, Any], *names: str) -> str:
        """Return the node that a pod may have."""
        return self.caller.filter(pod, names or tuple(self.kubelets)).selected_node

    def why(self, pod: dict[str, Any], node: str) -> str:
        """Return why a pod may not have a node."""
        return self.caller.filter(pod, [node]).reasons[node]

    def in_flight(self, node: str) -> list[str]:
        """Return the names of the pods that are charged on a node."""
        return [one.partition("/")[2] for one in self.extender.state(node)["assumedPods"]]

    def until_in_flight(self, node: str, *names: str) -> None:
        self.extender.until(lambda: self.in_flight(node) == list(names))

    def until_known(self, node: str, free: str) -> None:
        """Wait until a node's first zone has these CPUs left, as far as the extender knows."""
        self.extender.until(lambda: self.extender.state(node).get("freeCpus", {}).get("zone 0") == free)


@contextlib.contextmanager
def new_site(*flags: str, nodes: tuple[str, ...] = ("n",)) -> Generator[Site]:
    with new_cluster() as world:
        kubelets = {name: Kubelet(name, idle_node(KIND)) for name in nodes}
        for name, kubelet in kubelets.items():
            world.add_node(name)
            world.report(kubelet)
        with running_extender("--api-server", world.server.url, *flags) as extender:
            site = Site(world, extender, kubelets)
            with contextlib.closing(site.caller):
                yield site
                extender.close()


@pytest.fixture
def site() -> Generator[Site]:
    with new_site() as made:
        yield made


# --- promises


def test_three_pods_before_any_is_bound(site: Site) -> None:
    """Three pods that want most of a zone of a node with two: two have it before any is bound, the third hears why."""
    pods = [site.create(f"p{number}") for number in range(3)]
    assert [site.ask(pod) for pod in pods] == ["n", "n", ""]
    assert site.why(pods[2], "n") == "node(s) would reject it: needs 5 CPUs in one zone"
    assert site.in_flight("n") == ["p0", "p1"]
    assert site.extender.metric('zonewise_assumed_pods_total{outcome="assumed"}') == 2
    assert site.extender.metric("zonewise_pods_assumed") == 2
    assert "pod=lab/p0 node=n predicted=c0 cpus=0-4" in site.extender.said


def test_asked_again(site: Site) -> None:
    """A pod that is asked about again is decided again: for the same node, and for none."""
    pod = site.create("p", WHOLE)
    assert [site.ask(pod) for _ in range(3)] == ["n"] * 3
    assert site.in_flight("n") == ["p"]
    assert site.ask(pod, "unknown") == ""
    assert site.in_flight("n") == []


def test_a_pod_that_lands_elsewhere() -> None:
    """A pod that another scheduler sends elsewhere is charged there; what it was promised here is free."""
    with new_site(nodes=("a", "b")) as site:
        pod = site.create("p")
        assert site.ask(pod, "a") == "a"
        site.world.bind(pod, "b")
        site.until_in_flight("b", "p")
        assert site.in_flight("a") == []


def test_a_pod_that_is_deleted(site: Site) -> None:
    """A pod that is deleted before it is bound takes nothing with it."""
    pod = site.create("p")
    site.ask(pod)
    site.world.delete(pod)
    site.until_in_flight("n")


def test_a_pod_that_is_never_bound() -> None:
    """A promise runs out after --assume-timeout."""
    with new_site("--assume-timeout", "1s") as site:
        assert site.ask(site.create("p")) == "n"
        site.extender.until(lambda: site.extender.metric('zonewise_assumed_pods_total{outcome="expired"}') == 1)
        assert site.in_flight("n") == []


def test_a_report_covers_it(site: Site) -> None:
    """Once the node's report has the pod, it is no longer charged on top."""
    pod = site.create("p", WHOLE)
    site.ask(pod)
    site.world.bind(pod, "n")
    site.kubelets["n"].decide(_promise(pod, WHOLE))
    site.world.report(site.kubelets["n"])
    site.until_in_flight("n")
    assert site.extender.state("n")["freeCpus"]["zone 0"] == ""
    assert site.extender.metric('zonewise_assumed_pods_total{outcome="covered"}') == 1


def _promise(pod: dict[str, Any], shape: PodShape) -> Any:
    from zonewise_scheduler.nodes.assumed.types import PendingPod

    metadata = pod["metadata"]
    return PendingPod(metadata["uid"], metadata["namespace"], metadata["name"], shape)


def test_pods_that_are_there_at_the_start() -> None:
    """Pods that were bound before the extender came are charged before it answers."""
    with new_cluster() as world:
        world.add_node("n")
        world.report(Kubelet("n", idle_node(KIND)))
        for name in ("p", "q"):
            world.bind(world.create(build_pod(name, WHOLE)), "n")
        with running_extender("--api-server", world.server.url) as extender:
            site = Site(world, extender, {})
            assert site.ask(site.create("late"), "n") == ""
            site.caller.close()


# --- misses


def test_a_miss(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A kubelet's refusal of a promised pod is counted, kept for --replay, and the pair is set aside."""
    with new_site("--misprediction-dir", str(tmp_path / "mispredictions"), nodes=("a", "b")) as site:
        pod = site.create("p")
        assert site.ask(pod, "a") == "a"
        site.world.bind(pod, "a")
        site.until_in_flight("a", "p")
        site.world.reject(pod, "TopologyAffinityError", "Resources cannot be allocated with Topology locality")
        site.extender.until(lambda: "mispredicted as admitted" in site.extender.said)
        assert site.extender.metric('zonewise_mispredictions_total{reason="TopologyAffinityError"}') == 1
        again = site.create("q")
        assert site.why(again, "a").startswith("node(s) that lately rejected such a pod")
        assert site.ask(again, "a", "b") == "b"
        assert site.ask(site.create("other", HALF), "a") == "a", "only such pods"
    [file] = (tmp_path / "mispredictions").iterdir()
    assert main(["scheduler", "--replay", str(file)]) == 1
    said = capsys.readouterr().out
    assert said == (
        "kubelet:   TopologyAffinityError: Resources cannot be allocated with Topology locality\npredicted: admitted\n"
    )
    case = json.loads(file.read_text())
    case["state"]["free_cpus"] = 0
    file.write_text(json.dumps(case))
    assert main(["scheduler", "--replay", str(file)]) == 0


# --- binding


def test_bind() -> None:
    """A pod that we bind is bound by its UID, and carries what it is foretold to get."""
    with new_site("--bind", "true") as site:
        pod = site.create("p")
        assert site.ask(pod) == "n"
        metadata = pod["metadata"]
        arguments = {"PodName": "p", "PodNamespace": "lab", "PodUID": metadata["uid"], "Node": "n"}
        assert site.caller.call("bind", arguments | {"PodUID": "another"}).json["Error"] != ""
        assert "nodeName" not in site.world.pod("p")["spec"]
        assert site.caller.call("bind", arguments).json == {"Error": ""}
        bound = site.world.pod("p")
        assert bound["spec"]["nodeName"] == "n"
        annotations = bound["metadata"]["annotations"]
        keys = ("zonewise.dev/predicted-admission", "zonewise.dev/foretold")
        assert annotations == dict.fromkeys(keys, "c0 cpus=0-4")
        assert "already" in site.caller.call("bind", arguments).json["Error"]


def test_no_bind_unless_wished(site: Site) -> None:
    """Without --bind there is no such verb."""
    assert site.caller.send("/bind", b"{}").status == 404


# --- what is not known


@pytest.mark.parametrize(("policy", "node"), [("allow", "new"), ("allow-unaligned", ""), ("deny", "")])
def test_unreported_nodes(policy: str, node: str) -> None:
    """A node without a report takes any pod, those that ask nothing of zones, or none."""
    with new_site("--unreported-nodes", policy) as site:
        site.world.add_node("new")
        assert site.ask(site.create("p"), "new") == node
        shared = site.caller.filter(site.create("shared", SHARED), ["new"])
        assert shared.json["NodeNames"] == ([] if policy == "deny" else ["new"])
        assert ("predicted=unknown" in site.extender.said) == (policy == "allow")


@pytest.mark.parametrize(("policy", "node"), [("allow", "new"), ("allow-unaligned", "new"), ("deny", "")])
def test_daemons_on_unreported_nodes(policy: str, node: str) -> None:
    """A DaemonSet's pod may go where no report is yet, since the report may need it; unless none may."""
    with new_site("--unreported-nodes", policy) as site:
        site.world.add_node("new")
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "net", "uid": "u", "controller": True}
        made = build_pod("net-1", MOST)
        made["metadata"]["ownerReferences"] = [owner]
        assert site.ask(site.world.create(made), "new") == node


@pytest.mark.parametrize(("policy", "node"), [("allow", "n"), ("allow-unaligned", ""), ("deny", "")])
def test_stale_reports(policy: str, node: str) -> None:
    """A node on which a pod has run for --stale-after without being in the report is treated by the policy."""
    with new_site("--stale-reports", policy, "--stale-after", "1s") as site:
        old = site.create("old", HALF)
        site.world.bind(old, "n")
        site.world.set_status(old, phase="Running", startTime="2026-01-01T00:00:00Z")
        site.extender.until(lambda: site.extender.metric('zonewise_nodes{state="stale"}') == 1)
        assert site.ask(site.create("p")) == node
        assert (site.why(site.create("q"), "n") if not node else "stale").endswith("stale")
        shared = site.caller.filter(site.create("shared", SHARED), ["n"])
        assert shared.json["NodeNames"] == ([] if policy == "deny" else ["n"])


def test_the_report_of_another_agent(site: Site) -> None:
    """A node whose report tells counts by zone, and no more, is decided by these."""
    site.world.add_node("plain")
    site.world.publish(plain_nrt("plain", free=(6, 4)))
    site.extender.until(lambda: "freeCpus" in site.extender.state("plain"))
    assert site.ask(site.create("p"), "plain") == "plain"
    assert site.why(site.create("q"), "plain") == "node(s) would reject it: needs 5 CPUs in one zone"
    assert site.extender.state("plain")["unknown"] != []


def test_a_damaged_report(site: Site) -> None:
    """A report that tells of no zone is no report; the log says what is wrong with it."""
    site.world.publish({**plain_nrt("n", free=(8, 8)), "zones": []})
    site.extender.until(lambda: "node=n report: zones: there is none" in site.extender.said)
    site.extender.until(lambda: site.extender.metric('zonewise_nodes{state="unreported"}') == 1)
    assert site.ask(site.create("p")) == ""


# --- waking


def conditions(site: Site, name: str) -> list[dict[str, Any]]:
    return [one for one in site.world.pod(name)["status"].get("conditions", ()) if one["type"] == CONDITION]


def test_waking(site: Site) -> None:
    """A pod that waits gets a condition when a report frees zones, and so kube-scheduler tries it again."""
    kubelet = site.kubelets["n"]
    holders = [site.create(name, WHOLE) for name in ("p", "q")]
    for pod in holders:
        assert site.ask(pod) == "n"
        site.world.bind(pod, "n")
        kubelet.decide(_promise(pod, WHOLE))
    site.world.report(kubelet)
    site.until_in_flight("n")
    waiting = site.create("w", WHOLE)
    site.create("never", WHOLE)
    assert site.ask(waiting) == ""
    kubelet.end_pod(holders[0]["metadata"]["uid"])
    site.world.delete(holders[0])
    site.world.report(kubelet)
    eventually(lambda: bool(conditions(site, "w")))
    [condition] = conditions(site, "w")
    assert (condition["status"], condition["reason"]) == ("True", "NodeChanged")
    assert conditions(site, "never") == [], "nobody has asked about it"
    assert site.ask(waiting) == "n"
    site.extender.until(lambda: site.extender.metric("zonewise_pods_requeued_total") >= 1)


def test_a_pod_that_is_gone_is_not_woken(site: Site) -> None:
    """A pod that was refused after it had gone is forgotten once it cannot be requeued."""
    holder = site.create("p", WHOLE)
    both = pod_shape((8, 0), (8, 0))
    site.ask(holder)
    ghost = {**site.create("ghost", both)}
    site.world.delete(ghost)
    site.extender.until(lambda: site.extender.ready())
    assert site.ask(ghost) == ""
    site.world.delete(holder)
    site.until_in_flight("n")
    assert site.ask(site.create("q", both)) == "n"
    assert "cannot be requeued" not in site.extender.said


# --- beginning and end


def test_not_ready_before_all_is_known() -> None:
    """Without an API server it starts, says what it lacks, and answers no filter; once there is one, all is well."""
    with reserved_port() as port, running_extender("--api-server", f"http://127.0.0.1:{port}") as extender:
        status, text = extender.get("/readyz")
        assert (status, text) == (503, "not known yet: nodes, reports, pods\n")
        assert extender.get("/healthz")[0] == 200
        with contextlib.closing(Caller(extender)) as caller:
            pod = build_pod("p", MOST)
            pod["metadata"]["uid"] = "u"
            answer = caller.filter(pod, ["n"])
            assert answer.json["Error"] == "zonewise: not known yet: nodes, reports, pods"
            with new_cluster(port) as world:
                world.add_node("n")
                world.report(Kubelet("n", idle_node(KIND)))
                extender.until(lambda: extender.ready() and caller.filter(pod, ["n"]).selected_node == "n")
        extender.close()


def test_the_api_server_goes_away() -> None:
    """While it is away decisions go on by what was known; it ends at once when told to."""
    with new_cluster() as world:
        world.add_node("n")
        world.report(Kubelet("n", idle_node(KIND)))
        with running_extender("--api-server", world.server.url) as extender:
            site = Site(world, extender, {"n": Kubelet("n", idle_node(KIND))})
            pods = [site.create(f"p{number}") for number in range(3)]
            world.server.close()
            assert [site.ask(pod) for pod in pods] == ["n", "n", ""]
            assert extender.ready()
            extender.close()
            site.caller.close()


def test_an_api_server_that_is_silent() -> None:
    """One that takes connections and says nothing holds up neither what is served nor the end."""
    silent = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{silent.getsockname()[1]}"
    with silent, running_extender("--api-server", url) as extender:
        assert extender.get("/readyz")[0] == 503
        extender.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_end(site: Site, number: signal.Signals) -> None:
    """Either signal ends it with status 0, if a caller's connection is open."""
    site.ask(site.create("p"))
    assert site.extender.terminate(number) == 0
    assert site.extender.said.rstrip().endswith("the extender stops")


def test_logs_in_json() -> None:
    """Each line is a JSON object."""
    with new_site("--log-format", "json") as site:
        site.ask(site.create("p"))
        lines = [json.loads(line) for line in site.extender.said.splitlines()]
        assert "pod=lab/p node=n predicted=c0 cpus=0-4" in [line["message"] for line in lines]


def run(*flags: str) -> tuple[int, str, str]:
    """Run the command to its end: status, output, and errors."""
    program = "import sys; from zonewise.cli import main; sys.exit(main())"
    made = subprocess.run(
        [sys.executable, "-c", program, "scheduler", *flags], capture_output=True, text=True, timeout=60, check=False
    )
    return made.returncode, made.stdout, made.stderr


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "--extender-only is required"),
        (["--extender-only", "--listen", "here"], "--listen: 'here' must be ADDRESS:PORT"),
        (["--extender-only", "--listen", ""], "listen: the extender needs an address"),
        (["--extender-only", "--assume-timeout", "soon"], "--assume-timeout: 'soon' must be a duration"),
        (["--extender-only", "--unreported-nodes", "maybe"], "must be one of allow, allow-unaligned, deny"),
        (["--extender-only", "--config", "/nowhere.yaml"], "/nowhere.yaml: no such file"),
        (["--extender-only", "--kubeconfig", "/nowhere"], "/nowhere"),
        (["--extender-only", "--api-server", "x:y"], "apiServer"),
        (["--extender-only", "--api-server", "http://127.0.0.1:1", "--tls-cert", "/nowhere.pem"], "tls.key"),
        (
            ["--extender-only", "--api-server", "http://127.0.0.1:1", "--tls-cert", "/a.pem", "--tls-key", "/b.pem"],
            "tls: /a.pem, /b.pem cannot be used",
        ),
        (
            ["--extender-only", "--api-server", "http://127.0.0.1:1", "--misprediction-dir", "/dev/null/x"],
            "mispredictionDir: /dev/null",
        ),
        (["--replay", "/nowhere.json"], "/nowhere.json: cannot be read"),
        (["--replay", __file__], "is no case"),
        (["--extender-only", "--unknown"], "--unknown"),
    ],
)
def test_what_cannot_be_done(flags: list[str], words: str) -> None:
    """What cannot be done is said in one line, with status 2."""
    status, printed, said = run(*flags)
    assert (status, printed) == (2, "")
    assert words in said.splitlines()[-1]
    assert "Traceback" not in said


@pytest.mark.parametrize("flag", ["--listen", "--metrics-listen"])
def test_a_port_that_is_taken(flag: str) -> None:
    """A port of somebody else is said too, soon, and nothing is left running."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        flags = {"--listen": "127.0.0.1:0", "--metrics-listen": "127.0.0.1:0", flag: address}
        status, _, said = run(
            "--extender-only", "--api-server", "http://127.0.0.1:1", *(part for pair in flags.items() for part in pair)
        )
    assert status == 2
    assert said.splitlines()[-1].endswith(f"cannot serve on {address}: Address already in use")


def test_help() -> None:
    """The help names every flag."""
    status, printed, _ = run("--help")
    assert status == 0
    for flag in ("--extender-only", "--replay", "--unreported-nodes", "--tls-client-ca", "ZONEWISE_LISTEN"):
        assert flag in printed


def test_no_metrics_server() -> None:
    """An empty --metrics-listen opens none."""
    with new_cluster() as world, running_extender("--api-server", world.server.url, "--metrics-listen", "") as extender:
        extender.until(lambda: "the extender starts" in extender.said)
        assert extender.said.count("serving on port") == 1
        assert extender.terminate() == 0
