"""Necessary conditions for CPUs if the kubelet may allocate busy ones (see Layout.counts_cpus).

The pod then takes fewer free CPUs than it requests, so the sum of its requests is not a bound. Three bounds still hold:

1. The number of free CPUs never increases while the containers of a pod are allocated. So with full-pcpus-only, which
   counts only free CPUs, the largest request must be free at first.
2. The same holds without that option if no container reuses CPUs and each takes its CPUs at once. Under best-effort, a
   container first takes CPUs near some zones, and busy ones among them may replace missing free ones.
3. A step that is aligned to zones needs a hint, and only free and reusable CPUs count for hints.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from zonewise_scheduler.nodes.arrays.cpu_reuse import CpuDemand
from zonewise_scheduler.nodes.arrays.layout import CPU

if TYPE_CHECKING:
    from zonewise_scheduler.nodes.arrays.alignment_request import AlignmentRequest, IndexedAmounts
    from zonewise_scheduler.nodes.arrays.layout import Layout


@lru_cache(maxsize=4096)
def with_necessary_cpus(layout: Layout, request: AlignmentRequest) -> AlignmentRequest:
    """Return a weaker request: every node of a layout can serve it if the node's kubelet admits the pod."""
    topology, largest = layout.policies.topology, request.cpus.largest
    takes_at_once = not request.reuses and topology != "best-effort"
    cpus = ((CPU, largest),) if takes_at_once or layout.cpus_per_core else ()
    steps = request.steps
    if not takes_at_once or topology == "none":
        steps = tuple(
            step._replace(hinted=_without_cpus(step.hinted), amounts=_without_cpus(step.amounts)) for step in steps
        )
    return request._replace(
        steps=tuple(step for step in steps if step.amounts),
        node_amounts=cpus + _without_cpus(request.node_amounts),
        cpus=CpuDemand(largest),
    )


def _without_cpus(amounts: IndexedAmounts) -> IndexedAmounts:
    return tuple((index, amount) for index, amount in amounts if index != CPU)
