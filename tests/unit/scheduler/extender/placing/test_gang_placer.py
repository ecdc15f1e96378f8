"""Gangs and single pods are placed concurrently: neither waits for the other, and no zone is assumed twice."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from support.extender_caches import LARGE_NODE
from support.gang_clusters import GangCluster
from support.ledger_kubelets import pod_shape
from zonewise_scheduler.extender.placing import gang_placer
from zonewise_scheduler.nodes.gang.member_placement import place_members
from zonewise_scheduler.nodes.node.node_info import Labels, NodeInfo

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

EIGHT = pod_shape((8, 0))
"""All CPUs of one zone; a node has two zones."""
FOUR = pod_shape((4, 0))
TIMEOUT = 30.0
"""Seconds after which a thread counts as blocked."""


def interpose(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object], times: int = 1) -> list[bool]:
    """Run `meanwhile` in another thread after the first placements of a gang; return whether it ended each time."""
    ended: list[bool] = []

    def place(*args: Any, **kwargs: Any) -> Any:
        placed = place_members(*args, **kwargs)
        if len(ended) < times:
            thread = threading.Thread(target=meanwhile, daemon=True)
            thread.start()
            thread.join(TIMEOUT)
            ended.append(not thread.is_alive())
        return placed

    monkeypatch.setattr(gang_placer, "place_members", place)
    return ended


def start(cluster: GangCluster, names: list[str]) -> None:
    """Place the pods of these names and let them arrive on their kubelets, which must admit them."""
    cluster.run_pass()
    for name in names:
        assert name in cluster.bound or cluster.filter_and_bind(name)
        assert cluster.arrive(name)


def test_single_pods_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single pod is filtered while nodes are being chosen for a gang."""
    cluster = GangCluster("n", "m")
    cluster.create("single", EIGHT)
    names = cluster.create_gang("g", [EIGHT] * 3)
    ended = interpose(monkeypatch, lambda: cluster.filter_and_bind("single"))
    assert cluster.filter_and_bind(names[0])
    assert ended == [True]
    start(cluster, [*names, "single"])


def test_a_member_that_was_bound_to_a_node_outside_of_any_domain() -> None:
    """The other members wait, and the reason names the node without the label."""
    cluster = GangCluster("n", "m", "o")
    for node in "mo":
        cluster.cache.update_node(None, NodeInfo(node, Labels(("rack",), ("r",)), allocatable=LARGE_NODE))
    cluster.create_group("g", 3, level="rack")
    names = cluster.create_members("g", [EIGHT] * 3)
    cluster.bound[names[0]] = "n"
    cluster.observe(names[0])
    assert cluster.reason(names[1]).endswith(
        "lab/g does not fit: all must be in one rack, and n, which has a pod of it, has no such label"
    )
    cluster.cache.update_node(None, NodeInfo("n", Labels(("rack",), ("r",)), allocatable=LARGE_NODE))
    assert cluster.filter_and_bind(names[1])


def test_a_member_that_is_deleted_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the deleted member too few are left, so none gets a node until its replacement exists."""
    cluster = GangCluster("n", "m")
    names = cluster.create_gang("g", [EIGHT] * 3)
    interpose(monkeypatch, lambda: cluster.delete(names[2]))
    assert not cluster.filter_and_bind(names[0])
    assert cluster.run_pass() == {}
    assert cluster.cache.view.counters().assumed == 0
    cluster.create_members("g", [EIGHT], first=3)
    start(cluster, [*names[:2], "g-3"])


def test_a_node_that_a_single_pod_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gang whose node was taken is placed on other nodes; if too few are left, it holds none."""
    for nodes, starts in ((("n", "m"), True), (("n",), False)):
        cluster = GangCluster(*nodes)
        cluster.create("single", EIGHT)
        names = cluster.create_gang("g", [EIGHT] * 2)
        interpose(monkeypatch, lambda cluster=cluster: cluster.filter_and_bind("single", "n"))
        assert bool(cluster.filter_and_bind(names[0])) is starts
        if starts:
            start(cluster, [*names, "single"])
        else:
            assert cluster.arrive("single")
            assert cluster.run_pass() == {}
            assert cluster.cache.view.counters().assumed == 1


def test_single_pods_do_not_block_a_gang(monkeypatch: pytest.MonkeyPatch) -> None:
    """Single pods that take nodes during each try do not block a gang for ever: the last tries exclude them."""
    cluster = GangCluster(*(f"n{number}" for number in range(8)))
    names = cluster.create_gang("g", [EIGHT] * 4)
    singles = iter(f"single-{number}" for number in range(8))

    def take() -> None:
        name = next(singles)
        cluster.create(name, EIGHT)
        cluster.filter_and_bind(name)

    ended = interpose(monkeypatch, take, times=gang_placer.MAX_UNLOCKED_TRIES)
    assert cluster.filter_and_bind(names[0])
    assert all(ended)
    start(cluster, [*names, *(f"single-{number}" for number in range(len(ended)))])


def test_more_nodes_than_tries_reject_a_member() -> None:
    """Each node first gets 5, 5, 3 and 3 CPUs, which it rejects in some order of arrival. All idle nodes suffice."""
    nodes = gang_placer.MAX_TRIES + 1
    cluster = GangCluster(*(f"n{number}" for number in range(2 * nodes)))
    names = cluster.create_gang("g", [pod_shape((cpus, 0)) for cpus in (5, 3)] * 2 * nodes)
    assert cluster.filter_and_bind(names[0])
    start(cluster, names[::-1])


def test_more_stale_reports_than_tries() -> None:
    """Nodes with a stale report, or in backoff for such pods, do not keep a gang off the other nodes."""
    cluster = GangCluster(*(f"n{number}" for number in range(gang_placer.MAX_TRIES + 2)), "x", "y")
    for number in range(gang_placer.MAX_TRIES + 2):
        cluster.create(f"unreported-{number}", pod_shape((1, 0)))
        cluster.bound[f"unreported-{number}"] = f"n{number}"
        cluster.observe(f"unreported-{number}", started=cluster.clock())
    cluster.clock.advance(200)
    cluster.cache.state.ledger.backoff.record_misprediction("x", FOUR, cluster.clock())
    names = cluster.create_gang("g", [FOUR] * 3)  # they fill a node with a stale report
    assert cluster.filter_and_bind(names[0]) == "y"
    start(cluster, names)


def test_a_change_while_a_gang_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rejection applies to the nodes as they were when the gang was placed: the next call sees later changes."""
    cluster = GangCluster("n", "m")
    cluster.create("full", EIGHT)
    assert cluster.filter_and_bind("full", "m")
    assert cluster.arrive("full")
    cluster.report("m")
    names = cluster.create_gang("g", [EIGHT] * 4)

    def end() -> None:
        cluster.end("full")
        cluster.report("m")
        cluster.create("other", pod_shape((9, 0)))
        cluster.filter("other")  # brings the arrays up to date

    interpose(monkeypatch, end)
    assert cluster.filter(names[0]).node == ""
    assert cluster.filter(names[0]).node


def test_a_pod_of_the_same_pass_is_filtered_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod that the pass placed before a gang remains on its node, so no second pod gets its zone."""
    cluster = GangCluster("n", "m")
    for number in range(4):
        assert cluster.filter_and_bind(cluster.create(f"running-{number}", EIGHT).name)
        assert cluster.arrive(f"running-{number}")
    gang = cluster.create_gang("g", [EIGHT] * 3)
    cluster.create("single", EIGHT, priority=5)
    assert not cluster.filter("single").node
    assert not cluster.filter(gang[0]).node
    for node in "nm":  # one zone of each becomes free
        cluster.end(next(name for name, bound in cluster.bound.items() if bound == node))
        cluster.report(node)
    selected: dict[str, str] = {}

    def filter_others() -> None:
        selected["before"] = cluster.cache.state.node_of("uid-single")
        [other] = set(cluster.kubelets) - {selected["before"]}
        selected["after"] = cluster.filter("single", other).node
        cluster.create("late", EIGHT)
        selected["late"] = cluster.filter("late", selected["before"]).node

    ended = interpose(monkeypatch, filter_others)
    assert cluster.run_pass()["single"] == selected["before"]
    assert ended == [True]
    assert (selected["after"], selected["late"]) == ("", "")
