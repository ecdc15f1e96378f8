"""Predicting one kubelet's admission of one pod: duration and accuracy. Run by `make bench`.

Times cover only `admit`: the best of three runs for each pair of node and pod, since disturbances only add time. The
peer computes what a kubelet computes to align a container: every combination of the hints of all resources. Ours also
computes the assignment.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.support.fit_exhaustive import aligned, supplies
from benchmarks.support.fit_mispredictions import mispredictions, recorded
from benchmarks.support.fit_nodes import POLICIES, common_pods, states
from benchmarks.support.targets import Row, show
from zonewise_scheduler.admission.admit import admit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape

ZONES = (2, 8)
STATES = 200
"""States of a node for each policy."""
RUNS = 3


class Peer(NamedTuple):
    """One comparison with the Cartesian product."""

    zones: int
    pod: str
    states: int
    target: str = ""


PEERS = (
    Peer(2, "1 GPU, 24 CPUs", 100),
    Peer(4, "1 GPU, 24 CPUs", 30, ">= 1"),
    Peer(8, "24 CPUs", 5, ">= 1"),  # with 3 resources there would be 16 million combinations
)


def main() -> int:
    """Run all measurements and print the tables; return 1 if a target is missed."""
    rows: list[Row] = []
    for zones in ZONES:
        rows += _common(zones)
    for peer in PEERS:
        rows += _against_the_product(peer)
    pairs = recorded()
    if pairs:
        rows += _rows(f"{len(pairs)} recorded admissions", _times(pairs))
        rows += mispredictions()
    else:
        print("the recorded cases are not beside the project: only common pods were measured")
    return show(rows)


def _common(zones: int) -> Iterator[Row]:
    pods = list(common_pods().values())
    pairs = [pair for policy in POLICIES for pair in product(states(zones, policy, STATES), pods)]
    yield from _rows(f"{zones} zones, 256 CPUs, common pods", _times(pairs))


def _rows(what: str, times: Sequence[float]) -> Iterator[Row]:
    middle, last, worst = statistics.median(times), statistics.quantiles(times, n=100)[-1], max(times)
    yield Row(f"{what}, median", f"{middle:.0f} us", "<= 100 us", middle <= 100)
    yield Row("... 99th percentile", f"{last:.0f} us")
    yield Row("... longest", f"{worst:.0f} us", "<= 5,000 us", worst <= 5000)


def _against_the_product(peer: Peer) -> Iterator[Row]:
    pod = common_pods()[peer.pod]
    theirs: list[float] = []
    ours: list[float] = []
    for state in states(peer.zones, "restricted", peer.states):
        is_aligned = partial(aligned, "restricted", peer.zones, supplies(state, pod))
        assert is_aligned() == (admit(state, pod).reason != "TopologyAffinityError")
        theirs.append(_time(is_aligned))
        ours.append(_time(partial(admit, state, pod)))
    ratio = statistics.median(peer_time / own_time for peer_time, own_time in zip(theirs, ours, strict=True))
    measured = f"{statistics.median(theirs):,.0f} / {statistics.median(ours):.0f} us = {ratio:,.1f}"
    yield Row(f"{peer.zones} zones, {peer.pod}: all hints / ours", measured, peer.target, not peer.target or ratio >= 1)


def _times(pairs: Iterable[tuple[NodeState, PodShape]]) -> list[float]:
    gc.disable()
    times = [_time(partial(admit, state, pod)) for state, pod in pairs]
    gc.enable()
    return times


def _time(call: Callable[[], object]) -> float:
    """Return the duration in microseconds."""
    best = float("inf")
    for _ in range(RUNS):
        started = time.perf_counter_ns()
        call()
        best = min(best, (time.perf_counter_ns() - started) / 1000)
    return best


if __name__ == "__main__":
    sys.exit(main())
