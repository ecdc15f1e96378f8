"""The cluster: one node for a pod at a time, of those asked about, by what is known; and who is woken for what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.clock import Clock
from support.ledger_kubelets import SHARED, SINGLE, Kubelet, kind_of, shape_of
from zonewise_scheduler.admission.node import idle_node
from zonewise_scheduler.admission.report.node_report import NodeReport
from zonewise_scheduler.extender import diagnosis
from zonewise_scheduler.extender.api_objects import ObservedPod, PublishedReport
from zonewise_scheduler.extender.cache import ExtenderCache, FallbackPolicy, ScheduleResult
from zonewise_scheduler.extender.types import CandidateNodes, ExtenderArgs
from zonewise_scheduler.nodes.assumed.types import BLOCKED_BY_ASSUMED, NODE_BACKOFF, LedgerTimeouts, PendingPod
from zonewise_scheduler.nodes.node.node_info import NodeInfo

if TYPE_CHECKING:
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.nodes.assumed.types import Misprediction

KIND = kind_of(SINGLE, gpus=0)
"""Two zones of eight CPUs."""
TRUST, WAITS = FallbackPolicy(), LedgerTimeouts()
HALF, MOST, WHOLE = shape_of((4, 0)), shape_of((5, 0)), shape_of((8, 0))


def asked(*names: str) -> CandidateNodes:
    return CandidateNodes(ExtenderArgs({}, node_names=msgspec.Raw(msgspec.json.encode(names))))


def pod(name: str, shape: PodShape = HALF) -> PendingPod:
    return PendingPod(f"uid-{name}", "lab", name, shape)


class Site:
    """A cluster of simulated kubelets, and what is told of it."""

    def __init__(self, *names: str, trust: FallbackPolicy = TRUST, waits: LedgerTimeouts = WAITS) -> None:
        self.clock = Clock()
        self.misses: list[Misprediction] = []
        self.cluster = ExtenderCache(self.clock, waits, trust, self.misses.append)
        self.kubelets: dict[str, Kubelet] = {}
        self.bound: set[str] = set()
        self.foreign = False
        """Another scheduler has sent a pod where we did not."""
        for name in names:
            self.kubelets[name] = Kubelet(name, idle_node(KIND))
            self.cluster.update_node(None, NodeInfo(name))
            self.report(name)

    def report(self, name: str) -> None:
        self.cluster.update_report(None, PublishedReport(self.kubelets[name].report(), self.clock()))

    def unreport(self, name: str) -> None:
        self.cluster.update_report(PublishedReport(NodeReport(name, None, (), ()), None), None)

    def choose(self, one: PendingPod, *names: str) -> ScheduleResult:
        return self.cluster.select_and_assume(one, asked(*(names or self.kubelets)))

    def seen(self, one: PendingPod, node: str = "", **more: Any) -> None:
        self.cluster.update_pod(None, ObservedPod(*one, node=node, **more))

    def gone(self, one: PendingPod) -> None:
        self.cluster.update_pod(ObservedPod(*one), None)

    def arrive(self, one: PendingPod, node: str) -> bool:
        """Have a pod bound, and its kubelet admit or refuse it."""
        self.bound.add(one.uid)
        self.seen(one, node)
        verdict = self.kubelets[node].sees(one)
        if not verdict.admitted:
            self.seen(one, node, phase="Failed", reason=verdict.reason, message=verdict.message)
        return verdict.admitted

    def in_flight(self) -> dict[str, list[str]]:
        """By node the names of the pods that are charged."""
        nodes: Any = self.cluster.dump()["nodes"]
        return {name: [one.removeprefix("lab/") for one in node["inFlight"]] for name, node in nodes.items()}


# --- choosing


def test_three_pods_before_any_is_bound() -> None:
    """Each of three pods that want most of a zone is told what is left by the ones before it; the third one none."""
    site = Site("n")
    told = [site.choose(pod(name, MOST)) for name in "abc"]
    assert [choice.node for choice in told] == ["n", "n", ""]
    assert told[2].failed_nodes == {"n": "node(s) would refuse it: needs 5 CPUs in one zone"}


def test_only_nodes_asked_about() -> None:
    """A node that was not asked about is not chosen, though it would be the best; unknown names are refused."""
    site = Site("a", "b", "c")
    assert site.choose(pod("p"), "b").node == "b"
    choice = site.choose(pod("q"), "d")
    assert choice == ScheduleResult("", None, {"d": diagnosis.NO_REPORT})


def test_asked_again() -> None:
    """A pod that is asked about again is decided again, and what it was promised before is free."""
    site = Site("a", "b")
    one = pod("p", WHOLE)
    assert site.choose(one, "a").node == "a"
    assert site.choose(one, "b").node == "b"
    assert site.in_flight() == {"a": [], "b": ["p"]}
    assert site.choose(one, "z").node == ""
    assert site.in_flight() == {"a": [], "b": []}
    assert site.cluster.predicted_verdict(one.uid) is None


def test_full_nodes_first() -> None:
    """With nobody waiting pods are packed: the second goes where the first went."""
    site = Site("a", "b", "c")
    assert {site.choose(pod(name)).node for name in "pqrs"} == {"a"}


def test_scores() -> None:
    """Scores are 0 to 100 by node, in the order asked; 0 for nodes of which nothing is known."""
    site = Site("a", "b")
    site.choose(pod("p"), "a")
    scores = site.cluster.scores(HALF, ["b", "unknown", "a"])
    assert scores[1] == 0
    assert 0 <= scores[0] < scores[2] <= 100


# --- what becomes of promises


def test_a_pod_that_lands_elsewhere() -> None:
    """Its promise is charged there, and no longer here."""
    site = Site("a", "b")
    site.choose(pod("p"), "a")
    site.seen(pod("p"), "b")
    assert site.in_flight() == {"a": [], "b": ["p"]}


def test_a_pod_that_is_deleted() -> None:
    """A pod that is deleted before it is bound holds nothing."""
    site = Site("a")
    site.choose(pod("p"))
    site.gone(pod("p"))
    assert site.in_flight() == {"a": []}


def test_a_pod_that_is_never_bound() -> None:
    """A promise runs out."""
    site = Site("a", waits=LedgerTimeouts(assume_timeout=5))
    site.choose(pod("p"))
    site.clock.advance(4)
    site.cluster.tick()
    assert site.in_flight() == {"a": ["p"]}
    site.clock.advance(2)
    site.cluster.tick()
    assert site.in_flight() == {"a": []}


def test_a_miss() -> None:
    """A kubelet's refusal of a promised pod is a miss: it is told, and the node is not asked for such a pod again."""
    site = Site("a", "b")
    site.choose(pod("p"), "a")
    site.seen(pod("p"), "a")
    site.seen(pod("p"), "a", phase="Failed", reason="TopologyAffinityError", message="no")
    assert [(miss.node, miss.name, miss.reason) for miss in site.misses] == [("a", "p", "TopologyAffinityError")]
    assert site.choose(pod("q"), "a").failed_nodes == {"a": diagnosis.LEDGER_REASONS[NODE_BACKOFF]}
    assert site.choose(pod("q"), "a", "b").node == "b"


def test_a_refusal_of_another_scheduler_is_no_miss() -> None:
    """What others placed was not foretold."""
    site = Site("a")
    site.seen(pod("p"), "a")
    site.seen(pod("p"), "a", phase="Failed", reason="TopologyAffinityError")
    assert site.misses == []
    assert site.choose(pod("q")).node == "a"


def test_pods_of_others_are_charged() -> None:
    """A pod that another scheduler has bound takes its place too; one that asks nothing of a zone takes none."""
    site = Site("a")
    site.seen(pod("p", WHOLE), "a")
    site.seen(pod("shared", SHARED), "a")
    site.seen(pod("q", WHOLE), "a")
    assert site.choose(pod("r")).node == ""
    site.seen(pod("p", WHOLE), "a", phase="Succeeded")
    assert site.choose(pod("r")).node == "a"


# --- what is not known


@pytest.mark.parametrize(("policy", "node"), [("blind", "new"), ("unaligned", ""), ("refuse", "")])
def test_unreported_nodes(policy: str, node: str) -> None:
    """A pod that asks of zones goes to a node without a report only if that is wished."""
    site = Site("a", trust=FallbackPolicy(unreported=policy))
    choice = site.choose(pod("p"), "new")
    assert (choice.node, choice.verdict) == (node, None)
    assert site.choose(pod("q"), "new", "a").node == "a", "where something is known is better"
    names, failed = site.cluster.allowed_nodes(["a", "new"])
    assert names == (["a"] if policy == "refuse" else ["a", "new"])
    assert failed == ({"new": diagnosis.NO_REPORT} if policy == "refuse" else {})
    assert site.cluster.allows_every_node == (policy != "refuse")


@pytest.mark.parametrize(("policy", "node"), [("blind", "a"), ("unaligned", ""), ("refuse", "")])
def test_stale_reports(policy: str, node: str) -> None:
    """A report is stale when a pod has run for long without being in it; a new one that has it heals that."""
    site = Site("a", trust=FallbackPolicy(stale=policy, stale_after=30))
    site.seen(pod("p"), "a", started=site.clock())
    site.clock.advance(31)
    choice = site.choose(pod("q"))
    assert choice.node == node
    assert choice.failed_nodes == ({} if node else {"a": diagnosis.STALE_REPORT})
    assert site.cluster.allowed_nodes(["a"])[0] == ([] if policy == "refuse" else ["a"])
    assert site.cluster.node_counts() == {"reported": 0, "stale": 1, "unreported": 0}
    site.kubelets["a"].sees(pod("p"))
    site.report("a")
    assert site.choose(pod("r")).node == "a"


def test_a_node_loses_its_report() -> None:
    """Without its report a node takes no pod, and another node may have its row."""
    site = Site("a", "b")
    site.unreport("a")
    assert site.choose(pod("p"), "a").node == ""
    assert site.cluster.node_counts() == {"reported": 1, "stale": 0, "unreported": 1}
    site.kubelets["c"] = Kubelet("c", idle_node(KIND))
    site.report("c")
    assert site.choose(pod("p"), "a").node == ""
    assert site.choose(pod("p"), "c").node == "c"
    site.report("a")
    assert site.choose(pod("q", WHOLE), "a").node == "a"


def test_the_release_of_a_kubelet() -> None:
    """It is that of the node, as long as there is one that tells it."""
    site = Site("a")
    site.cluster.update_node(None, NodeInfo("a", release=(1, 33)))
    assert site.cluster.kubelet_release("a") == (1, 33)
    site.cluster.update_node(NodeInfo("a"), None)
    assert site.cluster.kubelet_release("a") == site.cluster.kubelet_release("unknown") == (1, 36)
    assert site.cluster.node_counts()["unreported"] == 0


# --- waking


def test_zones_that_become_free() -> None:
    """A pod that waits is woken once a report shows a place, once, and not again at once."""
    site = Site("a")
    site.arrive(pod("p", WHOLE), "a")
    site.arrive(pod("q", WHOLE), "a")
    site.report("a")
    assert site.choose(pod("r")).node == ""
    assert site.cluster.pods_to_requeue() == []
    site.kubelets["a"].ends(pod("p").uid)
    site.seen(pod("p", WHOLE), "a", phase="Succeeded")
    assert site.cluster.pods_to_requeue() == [], "the report has it yet"
    site.report("a")
    assert [one.name for one in site.cluster.pods_to_requeue()] == ["r"]
    assert site.cluster.pods_to_requeue() == []
    assert site.choose(pod("r")).node == "a"
    site.clock.advance(100)
    assert site.cluster.pods_to_requeue() == []


@pytest.mark.parametrize("how", ["bound", "deleted", "forgotten"])
def test_who_waits_no_more(how: str) -> None:
    """A pod that was bound elsewhere, or is gone, is not woken."""
    site = Site("a")
    site.seen(pod("p", WHOLE), "a")
    site.seen(pod("q", WHOLE), "a")
    site.choose(pod("r"))
    if how == "bound":
        site.seen(pod("r"), "elsewhere")
    elif how == "deleted":
        site.gone(pod("r"))
    else:
        site.cluster.remove_unschedulable(pod("r").uid)
    site.gone(pod("p", WHOLE))
    site.clock.advance(100)
    site.cluster.tick()
    assert site.cluster.pods_to_requeue() == []


def crowded() -> Site:
    """A node on its way to which are three pods, so that a fourth fits, but not in every order."""
    site = Site("a")
    for name, cpus in (("p", 3), ("q", 5), ("r", 5)):
        assert site.choose(pod(name, shape_of((cpus, 0)))).node == "a"
    assert site.choose(pod("s", shape_of((3, 0)))).failed_nodes == {"a": diagnosis.LEDGER_REASONS[BLOCKED_BY_ASSUMED]}
    return site


def test_pods_in_the_way_arrive() -> None:
    """Once they have arrived as foretold the node's state is the same, and yet the pod is woken, and placed."""
    site = crowded()
    for name, cpus in (("p", 3), ("q", 5), ("r", 5)):
        assert site.arrive(pod(name, shape_of((cpus, 0))), "a")
    assert site.cluster.pods_to_requeue() == []
    assert site.choose(pod("s", shape_of((3, 0)))).node == "", "nothing was reported yet"
    site.report("a")
    assert [one.name for one in site.cluster.pods_to_requeue()] == ["s"]
    assert site.choose(pod("s", shape_of((3, 0)))).node == "a"


def test_pods_in_the_way_leave() -> None:
    """A pod for which those on their way leave no place is placed as soon as they are gone."""
    site = crowded()
    site.gone(pod("r"))
    assert site.choose(pod("s", shape_of((3, 0)))).node == "a"


def test_pods_in_the_way_are_presumed_there() -> None:
    """Where a report has no fingerprints, pods are taken to be in it after a while; who waits for that is woken."""
    site = Site("a", waits=LedgerTimeouts(report_lag=10))
    site.kubelets["a"].methods = ()
    for name, cpus in (("p", 3), ("q", 5), ("r", 5)):
        site.choose(one := pod(name, shape_of((cpus, 0))))
        site.arrive(one, "a")
        site.seen(one, "a", started=site.clock())
    site.choose(pod("s", shape_of((3, 0))))
    site.clock.advance(1)
    site.report("a")
    site.cluster.pods_to_requeue()
    site.clock.advance(60)
    site.cluster.tick()
    assert [one.name for one in site.cluster.pods_to_requeue()] == ["s"]
    assert site.choose(pod("s", shape_of((3, 0)))).node == "a"


def test_a_pair_that_is_set_aside_is_tried_again() -> None:
    """A pod whose only node was set aside is woken, so that it hears when the node is asked again."""
    site = Site("a", waits=LedgerTimeouts(initial_backoff=10))
    site.choose(pod("p"), "a")
    site.seen(pod("p"), "a")
    site.seen(pod("p"), "a", phase="Failed", reason="TopologyAffinityError")
    assert site.choose(pod("q"), "a").node == ""
    woken: list[int] = []
    for second in range(1, 40):
        site.clock.advance(1)
        site.cluster.tick()
        if site.cluster.pods_to_requeue():
            woken.append(second)
            if site.choose(pod("q")).node:
                break
    assert len(woken) < 8
    assert 10 <= woken[-1] < 30


# --- whatever happens

NODES = ("a", "b", "c")
PODS = [pod(f"p{number}", shape_of((cpus, 0))) for number, cpus in enumerate((1, 3, 4, 5, 5, 8))]
STEPS = st.one_of(
    st.tuples(st.just("choose"), st.sampled_from(PODS), st.sets(st.sampled_from((*NODES, "unknown")), min_size=1)),
    st.tuples(st.just("arrive"), st.sampled_from(PODS), st.just(set[str]())),
    st.tuples(st.just("elsewhere"), st.sampled_from(PODS), st.sets(st.sampled_from(NODES), min_size=1, max_size=1)),
    st.tuples(st.sampled_from(["end", "gone", "tick", "wake"]), st.sampled_from(PODS), st.just(set[str]())),
    st.tuples(st.sampled_from(["report", "unreport"]), st.sampled_from(PODS), st.sets(st.sampled_from(NODES))),
)


@settings(max_examples=60)
@given(st.lists(STEPS, max_size=40))
def test_any_history(steps: list[tuple[str, PendingPod, set[str]]]) -> None:
    """Whatever comes in whatever order: a pod is charged to one node, one of those asked about, which admits it."""
    site = Site(*NODES)
    chosen: dict[str, str] = {}
    for step, one, names in steps:
        _follow(site, chosen, step, one, names)
        charged = [name for some in site.in_flight().values() for name in some]
        assert len(charged) == len(set(charged)), "two nodes for one pod"
        site.clock.advance(0.1)
    assert site.misses == [] or site.foreign


def _follow(site: Site, chosen: dict[str, str], step: str, one: PendingPod, names: set[str]) -> None:
    kubelet = next((made for made in site.kubelets.values() if one.uid in made.pods), None)
    if step == "choose" and one.uid not in site.bound:
        choice = site.choose(one, *sorted(names))
        assert choice.node in {*names, ""}
        assert set(choice.failed_nodes) == (set() if choice.node else names)
        chosen[one.uid] = choice.node
    elif step == "arrive" and one.uid not in site.bound and chosen.get(one.uid):
        assert site.arrive(one, chosen[one.uid]) or site.foreign
    elif step == "elsewhere" and one.uid not in site.bound:
        site.foreign = True
        site.arrive(one, *names)
    elif step == "end" and kubelet is not None:
        kubelet.ends(one.uid)
        site.seen(one, kubelet.node, phase="Succeeded")
    elif step == "gone" and one.uid not in site.bound:
        site.gone(one)
        chosen.pop(one.uid, None)
    elif step == "tick":
        site.cluster.tick()
    elif step == "wake":
        assert all(made.uid not in site.bound for made in site.cluster.pods_to_requeue())
    elif step in ("report", "unreport"):
        for name in sorted(names):
            getattr(site, step)(name)
