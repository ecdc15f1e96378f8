"""`zonewise scheduler --extender-only` between a simulated kube-scheduler and an embedded API server."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
from typing import TYPE_CHECKING, Any

import pytest

from support.extender import Caller, Extender, ExtenderCluster, build_pod, new_cluster, plain_nrt, running_extender
from support.ledger_kubelets import SHARED, SINGLE, Kubelet, node_kind, pod_shape
from support.waiting import eventually
from zonewise.cli import main
from zonewise_sandbox.up.ports import reserved_port
from zonewise_scheduler.admission.node import idle_node

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from zonewise_scheduler.admission.pod import PodShape

KIND = node_kind(SINGLE, gpus=0)
HALF, MOST, WHOLE = pod_shape((4, 0)), pod_shape((5, 0)), pod_shape((8, 0))
CONDITION = "zonewise.dev/ZonesFree"


class Site:
    """A cluster of idle nodes with two zones of eight CPUs, and an extender for it."""

    def __init__(self, world: ExtenderCluster, extender: Extender, kubelets: dict[str, Kubelet]) -> None:
        self.world, self.extender, self.kubelets = world, extender, kubelets
        extender.until(extender.ready)
        self.caller = Caller(extender)

    def create(self, name: str, shape: PodShape = MOST) -> dict[str, Any]:
        return self.world.create(build_pod(name, shape))

    def select(self, pod: dict[str, Any], *names: str) -> str:
        """Return the node that filter passes."""
        return self.caller.filter(pod, names or tuple(self.kubelets)).selected_node

    def reason(self, pod: dict[str, Any], node: str) -> str:
        """Return the reason for which filter rejects a node."""
        return self.caller.filter(pod, [node]).reasons[node]

    def assumed_pods(self, node: str) -> list[str]:
        """Return the names of the assumed pods of a node."""
        return [entry.partition("/")[2] for entry in self.extender.state(node)["assumedPods"]]

    def until_assumed(self, node: str, *names: str) -> None:
        self.extender.until(lambda: self.assumed_pods(node) == list(names))


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
    with new_site() as built:
        yield built


# --- assumed pods


def test_three_pods_before_any_is_bound(site: Site) -> None:
    """Of three pods that need most of a zone, two are assumed before any is bound; the third gets a reason."""
    pods = [site.create(f"p{number}") for number in range(3)]
    assert [site.select(pod) for pod in pods] == ["n", "n", ""]
    assert site.reason(pods[2], "n") == "node(s) would reject it: needs 5 CPUs in one zone"
    assert site.assumed_pods("n") == ["p0", "p1"]
    assert site.extender.metric("zonewise_assumptions_total") == 2
    assert site.extender.metric("zonewise_pods_assumed") == 2
    assert "pod=lab/p0 node=n predicted=c0 cpus=0-4" in site.extender.said


def test_a_pod_filtered_again_is_decided_again() -> None:
    """The second call decides anew, for the same node or for none."""
    with new_site("--direct-binding", "false") as site:
        pod = site.create("p", WHOLE)
        assert [site.select(pod) for _ in range(3)] == ["n"] * 3
        assert site.assumed_pods("n") == ["p"]
        assert site.select(pod, "unknown") == ""
        assert site.assumed_pods("n") == []


def test_a_pod_bound_elsewhere_is_assumed_there() -> None:
    """If another scheduler binds a pod to another node, it is assumed there, and forgotten on the first node."""
    with new_site(nodes=("a", "b")) as site:
        pod = site.create("p")
        assert site.select(pod, "a") == "a"
        site.world.bind(pod, "b")
        site.until_assumed("b", "p")
        assert site.assumed_pods("a") == []


def test_a_deleted_pod_is_forgotten(site: Site) -> None:
    """A pod that is deleted before it is bound uses no resources."""
    pod = site.create("p")
    site.select(pod)
    site.world.delete(pod)
    site.until_assumed("n")


def test_an_assumed_pod_expires() -> None:
    """--assume-timeout limits the time for which a pod is assumed."""
    with new_site("--assume-timeout", "1s", "--direct-binding", "false") as site:
        assert site.select(site.create("p")) == "n"
        site.extender.until(lambda: site.extender.metric('zonewise_assumed_pods_total{outcome="expired"}') == 1)
        assert site.assumed_pods("n") == []


def test_a_report_covers_a_pod(site: Site) -> None:
    """Once the node's report covers the pod, it is no longer assumed."""
    pod = site.create("p", WHOLE)
    site.select(pod)
    site.world.bind(pod, "n")
    site.kubelets["n"].decide(_pending_pod(pod, WHOLE))
    site.world.report(site.kubelets["n"])
    site.until_assumed("n")
    assert site.extender.state("n")["freeCpus"]["zone 0"] == ""
    assert site.extender.metric('zonewise_assumed_pods_total{outcome="covered"}') == 1


def _pending_pod(pod: dict[str, Any], shape: PodShape) -> Any:
    from zonewise_scheduler.nodes.assumed.types import PendingPod

    metadata = pod["metadata"]
    return PendingPod(metadata["uid"], metadata["namespace"], metadata["name"], shape)


def test_pods_bound_before_the_start_count() -> None:
    """Pods that were bound before the extender started count at once."""
    with new_cluster() as world:
        world.add_node("n")
        world.report(Kubelet("n", idle_node(KIND)))
        for name in ("p", "q"):
            world.bind(world.create(build_pod(name, WHOLE)), "n")
        with running_extender("--api-server", world.server.url) as extender:
            site = Site(world, extender, {})
            assert site.select(site.create("late"), "n") == ""
            site.caller.close()


# --- mispredictions


def test_a_misprediction(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A kubelet's rejection of an assumed pod is counted and stored for --replay; the node backs off for such pods."""
    with new_site("--misprediction-dir", str(tmp_path / "mispredictions"), nodes=("a", "b")) as site:
        pod = site.create("p")
        assert site.select(pod, "a") == "a"
        site.world.bind(pod, "a")
        site.until_assumed("a", "p")
        site.world.reject(pod, "TopologyAffinityError", "Resources cannot be allocated with Topology locality")
        site.extender.until(lambda: "mispredicted as admitted" in site.extender.said)
        assert site.extender.metric('zonewise_mispredictions_total{reason="TopologyAffinityError"}') == 1
        again = site.create("q")
        assert site.reason(again, "a").startswith("node(s) that recently rejected such a pod")
        assert site.select(again, "a", "b") == "b"
        assert site.select(site.create("other", HALF), "a") == "a", "only such pods"
    [file] = (tmp_path / "mispredictions").iterdir()
    assert main(["scheduler", "--replay", str(file)]) == 1
    output_text = capsys.readouterr().out
    assert output_text == (
        "kubelet:   TopologyAffinityError: Resources cannot be allocated with Topology locality\npredicted: admitted\n"
    )
    case = json.loads(file.read_text())
    case["state"]["free_cpus"] = 0
    file.write_text(json.dumps(case))
    assert main(["scheduler", "--replay", str(file)]) == 0


# --- binding


def test_bind() -> None:
    """The extender binds a pod by its UID, with the predicted zones as an annotation."""
    with new_site("--bind", "true") as site:
        pod = site.create("p")
        assert site.select(pod) == "n"
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
        assert site.caller.call("bind", arguments).json == {"Error": ""}, "it is bound there already"
        assert "already" in site.caller.call("bind", arguments | {"Node": "other"}).json["Error"]


def test_bind_is_optional(site: Site) -> None:
    """Without --bind, the verb is not served."""
    assert site.caller.send("/bind", b"{}").status == 404


# --- unknown and damaged reports


@pytest.mark.parametrize(("policy", "node"), [("allow", "new"), ("allow-unaligned", ""), ("deny", "")])
def test_unreported_nodes(policy: str, node: str) -> None:
    """By policy, a node without a report passes every pod, only pods that no kubelet aligns, or none."""
    with new_site("--unreported-nodes", policy) as site:
        site.world.add_node("new")
        assert site.select(site.create("p"), "new") == node
        shared = site.caller.filter(site.create("shared", SHARED), ["new"])
        assert shared.json["NodeNames"] == ([] if policy == "deny" else ["new"])
        assert ("predicted=unknown" in site.extender.said) == (policy == "allow")


@pytest.mark.parametrize(("policy", "node"), [("allow", "new"), ("allow-unaligned", "new"), ("deny", "")])
def test_daemons_on_unreported_nodes(policy: str, node: str) -> None:
    """A DaemonSet's pod may go to a node without a report, which may need that pod, unless the policy is `deny`."""
    with new_site("--unreported-nodes", policy) as site:
        site.world.add_node("new")
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "net", "uid": "u", "controller": True}
        built = build_pod("net-1", MOST)
        built["metadata"]["ownerReferences"] = [owner]
        assert site.select(site.world.create(built), "new") == node


@pytest.mark.parametrize(("policy", "node"), [("allow", "n"), ("allow-unaligned", ""), ("deny", "")])
def test_stale_reports(policy: str, node: str) -> None:
    """If a pod has run for --stale-after without being in the report, the policy --stale-reports applies."""
    with new_site("--stale-reports", policy, "--stale-after", "1s") as site:
        old = site.create("old", HALF)
        site.world.bind(old, "n")
        site.world.set_status(old, phase="Running", startTime="2026-01-01T00:00:00Z")
        site.extender.until(lambda: site.extender.metric('zonewise_nodes{state="stale"}') == 1)
        assert site.select(site.create("p")) == node
        assert (site.reason(site.create("q"), "n") if not node else "stale").endswith("stale")
        shared = site.caller.filter(site.create("shared", SHARED), ["n"])
        assert shared.json["NodeNames"] == ([] if policy == "deny" else ["n"])


def test_the_report_of_another_agent(site: Site) -> None:
    """For a report with only counts by zone, these counts decide."""
    site.world.add_node("plain")
    site.world.publish(plain_nrt("plain", free=(6, 4)))
    site.extender.until(lambda: "freeCpus" in site.extender.state("plain"))
    assert site.select(site.create("p"), "plain") == "plain"
    assert site.reason(site.create("q"), "plain") == "node(s) would reject it: needs 5 CPUs in one zone"
    assert site.extender.state("plain")["unknown"] != []


def test_a_damaged_report(site: Site) -> None:
    """A report without zones counts as absent, and the log names the problem."""
    site.world.publish({**plain_nrt("n", free=(8, 8)), "zones": []})
    site.extender.until(lambda: "node=n report: zones: no zone of type Node" in site.extender.said)
    site.extender.until(lambda: site.extender.metric('zonewise_nodes{state="unreported"}') == 1)
    assert site.select(site.create("p")) == ""


# --- requeueing


def conditions(site: Site, name: str) -> list[dict[str, Any]]:
    return [entry for entry in site.world.pod(name)["status"].get("conditions", ()) if entry["type"] == CONDITION]


def _with_a_full_node(site: Site) -> dict[str, Any]:
    """Run two pods that fill both zones of the node; return one of them."""
    kubelet = site.kubelets["n"]
    holders = [site.create(name, WHOLE) for name in ("p", "q")]
    for pod in holders:
        assert site.select(pod) == "n"
        site.world.bind(pod, "n")
        kubelet.decide(_pending_pod(pod, WHOLE))
    site.world.report(kubelet)
    site.until_assumed("n")
    return holders[0]


def _end(site: Site, holder: dict[str, Any]) -> None:
    site.kubelets["n"].end_pod(holder["metadata"]["uid"])
    site.world.delete(holder)
    site.world.report(site.kubelets["n"])


def test_unschedulable_pods_are_requeued() -> None:
    """When a report frees zones, an unschedulable pod gets a condition, so that kube-scheduler retries it."""
    with new_site("--direct-binding", "false") as site:
        holder = _with_a_full_node(site)
        waiting = site.create("w", WHOLE)
        site.create("never", WHOLE)
        assert site.select(waiting) == ""
        _end(site, holder)
        eventually(lambda: bool(conditions(site, "w")))
        [condition] = conditions(site, "w")
        assert (condition["status"], condition["reason"]) == ("True", "NodeChanged")
        assert conditions(site, "never") == [], "kube-scheduler has not filtered it"
        assert site.select(waiting) == "n"
        site.extender.until(lambda: site.extender.metric("zonewise_pods_requeued_total") >= 1)


def test_unschedulable_pods_are_bound(site: Site) -> None:
    """When a report frees zones, an unschedulable pod is bound; one that only kube-scheduler can place is requeued."""
    holder = _with_a_full_node(site)
    waiting = site.create("w", WHOLE)
    site.create("never", WHOLE)
    assert site.select(waiting) == ""
    _end(site, holder)
    eventually(lambda: site.world.pod("w")["spec"].get("nodeName") == "n")
    assert "zonewise.dev/predicted-admission" in site.world.pod("w")["metadata"]["annotations"]
    assert conditions(site, "w") == []
    assert "nodeName" not in site.world.pod("never")["spec"], "kube-scheduler has not filtered it"
    site.extender.until(lambda: site.extender.metric('zonewise_direct_bindings_total{result="bound"}') == 1)


def test_pods_that_were_tried_before_the_start() -> None:
    """The extender requeues one of them. Once kube-scheduler has filtered it, the extender binds the other one."""
    with new_cluster() as world:
        kubelet = Kubelet("n", idle_node(KIND))
        world.add_node("n")
        world.report(kubelet)
        tried = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        pods = [world.create(build_pod(name, HALF)) for name in ("v", "w")]
        for pod in pods:
            world.set_status(pod, conditions=[tried])
        with running_extender("--api-server", world.server.url) as extender:
            site = Site(world, extender, {"n": kubelet})
            with contextlib.closing(site.caller):
                eventually(lambda: sum(bool(conditions(site, name)) for name in ("v", "w")) == 1)
                requeued, other = pods if conditions(site, "v") else reversed(pods)
                assert site.select(requeued) == "n"
                eventually(lambda: world.pod(other["metadata"]["name"])["spec"].get("nodeName") == "n")
                extender.close()


def test_pods_that_only_kube_scheduler_can_place(site: Site) -> None:
    """A pod with a volume claim is requeued through kube-scheduler."""
    holder = _with_a_full_node(site)
    pod = build_pod("w", WHOLE)
    pod["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    assert site.select(site.world.create(pod)) == ""
    _end(site, holder)
    eventually(lambda: bool(conditions(site, "w")))
    assert "nodeName" not in site.world.pod("w")["spec"]


def test_a_deleted_pod_is_not_requeued(site: Site) -> None:
    """A pod that was rejected after its deletion is dropped when it cannot be requeued."""
    holder = site.create("p", WHOLE)
    both = pod_shape((8, 0), (8, 0))
    site.select(holder)
    ghost = {**site.create("ghost", both)}
    site.world.delete(ghost)
    site.extender.until(lambda: site.extender.ready())
    assert site.select(ghost) == ""
    site.world.delete(holder)
    site.until_assumed("n")
    assert site.select(site.create("q", both)) == "n"
    assert "cannot be requeued" not in site.extender.said


# --- start and stop


def test_not_ready_before_the_first_lists() -> None:
    """Without an API server, the extender starts, reports what is missing, and fails filter; with one, it recovers."""
    with reserved_port() as port, running_extender("--api-server", f"http://127.0.0.1:{port}") as extender:
        status, text = extender.get("/readyz")
        assert (status, text) == (503, "waits for the first list of nodes, reports, pods\n")
        assert extender.get("/healthz")[0] == 200
        with contextlib.closing(Caller(extender)) as caller:
            pod = build_pod("p", MOST)
            pod["metadata"]["uid"] = "u"
            response = caller.filter(pod, ["n"])
            assert response.json["Error"] == "zonewise: waits for the first list of nodes, reports, pods"
            with new_cluster(port) as world:
                world.add_node("n")
                world.report(Kubelet("n", idle_node(KIND)))
                extender.until(lambda: extender.ready() and caller.filter(pod, ["n"]).selected_node == "n")
        extender.close()


def test_the_api_server_becomes_unavailable() -> None:
    """Without the API server, the extender decides from its cache; a signal stops it at once."""
    with new_cluster() as world:
        world.add_node("n")
        world.report(Kubelet("n", idle_node(KIND)))
        with running_extender("--api-server", world.server.url) as extender:
            site = Site(world, extender, {"n": Kubelet("n", idle_node(KIND))})
            pods = [site.create(f"p{number}") for number in range(3)]
            world.server.close()
            assert [site.select(pod) for pod in pods] == ["n", "n", ""]
            assert extender.ready()
            extender.close()
            site.caller.close()


def test_an_api_server_that_is_silent() -> None:
    """An API server that accepts connections but never responds blocks neither calls nor the stop."""
    silent = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{silent.getsockname()[1]}"
    with silent, running_extender("--api-server", url) as extender:
        assert extender.get("/readyz")[0] == 503
        extender.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals(site: Site, number: signal.Signals) -> None:
    """Either signal stops the extender with status 0, even while a connection is open."""
    site.select(site.create("p"))
    assert site.extender.terminate(number) == 0
    assert "the extender stops" in site.extender.said


def test_logs_in_json() -> None:
    """Each log line is a JSON object."""
    with new_site("--log-format", "json") as site:
        site.select(site.create("p"))
        lines = [json.loads(line) for line in site.extender.said.splitlines()]
        assert "pod=lab/p node=n predicted=c0 cpus=0-4" in [line["message"] for line in lines]
