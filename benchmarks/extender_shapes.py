"""The cost of one filter call for any pod on nodes of any layout. Run as `python -m benchmarks.extender_shapes`.

The axes are layouts of 5,000 nodes (1, 15, 240), the kubelets' policies, and shapes of pods. Each call is the first for
its shape, so nothing is cached. Times are CPU time of the calling thread, which never waits. A call that finds a node
returns at once. A call that finds none ends with a reason for each node. Nodes for which it had no time are judged
later.
"""

from __future__ import annotations

import gc
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from benchmarks.support.agent_testbed import PROJECT
from benchmarks.support.extender_testbed import node_names
from benchmarks.support.fit_layouts import cluster, partly_idle, shapes
from benchmarks.support.targets import Row, show
from zonewise_scheduler.admission.pod import Container, PodShape
from zonewise_scheduler.extender.cache import ExtenderCache
from zonewise_scheduler.extender.fallback_policy import FallbackPolicy
from zonewise_scheduler.extender.objects.api_objects import ObservedPod, PublishedReport
from zonewise_scheduler.extender.objects.pod_limits import size_problem
from zonewise_scheduler.extender.tables.diagnosis import NOT_JUDGED
from zonewise_scheduler.extender.types import CandidateNodes, ExtenderArgs
from zonewise_scheduler.nodes.assumed.types import LedgerTimeouts, PendingPod

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zonewise_scheduler.admission.node import NodeState

sys.path.insert(0, str(PROJECT / "tests"))

NODES = 5_000
LAYOUTS = (1, 15, 240)
MAX_CALLS = 200
FIRST, IN_ALL = 20.0, 100.0
"""Maximum milliseconds until a node is found, and of all calls."""
POLICIES: dict[str, dict[str, object]] = {
    "none": {"topology": "none"},
    "best-effort": {"topology": "best-effort"},
    "best-effort, pod": {"topology": "best-effort", "scope": "pod"},
    "restricted": {"topology": "restricted"},
    "restricted, pod": {"topology": "restricted", "scope": "pod"},
    "restricted, align-by-socket": {"topology": "restricted", "align_by_package": True},
    "restricted, any CPUs": {"topology": "restricted", "full_cores": False},
    "restricted, distribute": {"topology": "restricted", "distribute_across_zones": True},
    "restricted, closest": {"topology": "restricted", "prefer_closest": True},
    "single-numa-node": {"topology": "single-numa-node"},
    "single-numa-node, pod": {"topology": "single-numa-node", "scope": "pod"},
    "single-numa-node, any CPUs": {"topology": "single-numa-node", "full_cores": False},
    "single-numa-node, across cores": {
        "topology": "single-numa-node", "full_cores": False, "distribute_across_cores": True,
    },
}  # fmt: skip


class ShapeTimes(NamedTuple):
    """The cost of calls for one shape, in milliseconds."""

    layouts: int
    policies: str
    shape: str
    has_node: bool
    first: float
    """Cost of the first call."""
    worst: float
    """Cost of the most expensive call, until all nodes are judged."""
    in_all: float
    """Cost of all these calls."""
    scores: float
    calls: int
    unjudged: int
    """Number of nodes without a verdict after the first call."""


def main() -> int:
    """Run all measurements and print the tables; return 1 if a target is missed."""
    times: list[ShapeTimes] = []
    for layouts in LAYOUTS:
        states = partly_idle(cluster(NODES, layouts, {}))
        for policies in POLICIES:
            times += _measure(layouts, policies, states)
            gc.unfreeze()
    _print_table(times)
    return show(list(_rows(times)))


def _measure(layouts: int, policies: str, states: Sequence[NodeState]) -> Iterator[ShapeTimes]:
    from support.ledger_kubelets import node_report

    kinds = {
        id(state.kind): replace(state.kind, policies=state.kind.policies._replace(**POLICIES[policies]))
        for state in states
    }
    cache = ExtenderCache(time.time, LedgerTimeouts(), FallbackPolicy(), lambda _: None)
    names = node_names(len(states))
    for name, state in zip(names, states, strict=True):
        report = node_report(name, state._replace(kind=kinds[id(state.kind)]), [], 1)
        cache.update_report(None, PublishedReport(report, None))
    cache.tick()
    warm = PendingPod(
        "uid-warm", "bench", "warm", PodShape((Container("a", "app", 1000, (("memory", 1),)),), "Guaranteed")
    )
    cache.select_and_assume(warm, CandidateNodes(ExtenderArgs({}, node_names=_json(names))))  # writes all rows
    cache.update_pod(ObservedPod(*warm), None)
    gc.collect()
    gc.freeze()  # as the extender does once it has all objects
    for number, (title, shape) in enumerate(shapes().items()):
        yield _shape_times(cache, names, shape, ShapeTimes(layouts, policies, title, False, 0, 0, 0, 0, 0, 0), number)


def _shape_times(
    cache: ExtenderCache, names: Sequence[str], shape: PodShape, times: ShapeTimes, number: int
) -> ShapeTimes:
    pod = PendingPod(f"uid-{number}", "bench", "p", shape)
    began = time.thread_time()
    if size_problem(shape):
        first = _since(began)
        return times._replace(first=first, worst=first, in_all=first, calls=1)
    nodes = CandidateNodes(ExtenderArgs({}, node_names=_json(names)))
    began = time.thread_time()
    result = cache.select_and_assume(pod, nodes)
    first = worst = in_all = _since(began)
    unjudged = sum(reason == NOT_JUDGED for reason in result.failed_nodes.values())
    calls, left = 1, unjudged
    while left and not result.node and calls < MAX_CALLS:
        began = time.thread_time()
        cache.pods_to_requeue()
        judging = _since(began)
        began = time.thread_time()
        result = cache.select_and_assume(pod, nodes)
        answering = _since(began)
        worst, in_all = max(worst, judging, answering), in_all + judging + answering
        left = sum(reason == NOT_JUDGED for reason in result.failed_nodes.values())
        calls += 1
    began = time.thread_time()
    cache.scores(shape, list(names))
    scores = _since(began)
    cache.update_pod(ObservedPod(*pod), None)
    return times._replace(
        has_node=bool(result.node),
        first=first,
        worst=worst,
        in_all=in_all,
        scores=scores,
        calls=calls,
        unjudged=unjudged,
    )


def _json(names: Sequence[str]) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(list(names)))


def _since(began: float) -> float:
    return (time.thread_time() - began) * 1000


def _print_table(times: Sequence[ShapeTimes]) -> None:
    """Print the maxima over all shapes by layouts and policies, and the shapes that needed more than one call."""
    print(f"{NODES:,} nodes; milliseconds of CPU; the worst of {len(shapes())} shapes")
    print(f"{'layouts':>8}  {'policies':32} {'first answer':>13} {'any call':>9} {'scores':>7}  judged later")
    for layouts in LAYOUTS:
        for policies in POLICIES:
            some = [entry for entry in times if (entry.layouts, entry.policies) == (layouts, policies)]
            first = max((entry.first for entry in some if entry.has_node and entry.calls == 1), default=0.0)
            later = "; ".join(
                f"{entry.shape}: {entry.unjudged} nodes, {entry.calls} calls" for entry in some if entry.calls > 1
            )
            worst, scores = max(entry.worst for entry in some), max(entry.scores for entry in some)
            print(f"{layouts:8}  {policies:32} {first:13.2f} {worst:9.2f} {scores:7.2f}  {later or '-'}")


def _rows(times: Sequence[ShapeTimes]) -> Iterator[Row]:
    answered = [entry for entry in times if entry.has_node and entry.calls == 1]
    for what, limit, entries, value in (
        ("first answer", FIRST, answered, "first"),
        ("any call", IN_ALL, times, "worst"),
        ("all calls until each node is judged", IN_ALL, times, "in_all"),
        ("scores", IN_ALL, times, "scores"),
    ):
        worst = max(entries, key=lambda entry, value=value: getattr(entry, value))
        figure: float = getattr(worst, value)
        place = f"{worst.shape}; {worst.layouts} layouts; {worst.policies}"
        yield Row(f"{what}, the worst: {place}", f"{figure:.1f} ms", f"<= {limit:g} ms", figure <= limit)
    unfinished = [entry for entry in times if entry.calls == MAX_CALLS]
    yield Row("pods for which nodes are unjudged in the end", str(len(unfinished)), "0", not unfinished)


if __name__ == "__main__":
    sys.exit(main())
