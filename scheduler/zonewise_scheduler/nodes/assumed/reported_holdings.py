"""The holdings of each pod according to a node's last report (zonewise_common.nrt.holdings)."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING

from zonewise_common.nrt.holdings import Holdings, holdings_key, read_holdings
from zonewise_scheduler.nodes.assumed.exclusive_resources import admitted_holdings

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from zonewise_scheduler.admission.node import NodeKind
    from zonewise_scheduler.nodes.assumed.pod_state import PodState


class ReportedHoldings:
    """See the module. The texts are read when they are first needed."""

    def __init__(self, texts: tuple[tuple[int, str], ...] | None) -> None:
        """`texts`: by zone, as in NodeReport.holdings; None: unknown."""
        self._texts = texts

    @cached_property
    def _by_key(self) -> dict[str, Holdings] | None:
        try:
            return None if self._texts is None else read_holdings(self._texts)
        except ValueError:  # damaged: the reader of reports has reported it
            return None

    def without(self, pods: Iterable[PodState]) -> dict[str, Holdings] | None:
        """Return the holdings by key without those of some pods, or None if they are unknown."""
        excluded = {holdings_key(pod.namespace, pod.name) for pod in pods}
        if self._by_key is None or not excluded:
            return self._by_key
        return {key: held for key, held in self._by_key.items() if key not in excluded}

    def of_ended(self, pods: Collection[PodState], last_event: int) -> dict[PodState, Holdings]:
        """Return what the ended pods hold that the report covers; pods with unknown holdings are left out.

        They are also unknown if the report may show a living pod of the same name, which was bound before it.
        `last_event`: the number of the last binding or end before the report arrived.
        """
        ended = [pod for pod in pods if pod.removed_at is not None and pod.covered]
        if not ended:
            return {}
        possible = Counter(
            pod.hash
            for pod in pods
            if pod.covered or (pod.removed_at is None and pod.bound and pod.arrival <= last_event)
        )
        return {pod: held for pod in ended if possible[pod.hash] == 1 and (held := self._get(pod)) is not None}

    def lack_part_of(self, pod: PodState, kind: NodeKind) -> bool:
        """Return whether the report shows less of a pod's CPUs, memory or devices than the pod requests."""
        if self._by_key is None:
            return False
        held = self._get(pod) or Holdings()
        cpus, amounts = admitted_holdings(kind, pod.shape)
        shown = Counter[str]()
        for resource, _, amount in held.amounts:
            shown[resource] += amount
        return held.cpus.bit_count() < cpus or any(shown[resource] < amount for resource, amount in amounts)

    def _get(self, pod: PodState) -> Holdings | None:
        return (self._by_key or {}).get(holdings_key(pod.namespace, pod.name))
