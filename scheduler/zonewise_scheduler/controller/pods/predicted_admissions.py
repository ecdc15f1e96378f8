"""Distribute a node's predicted admissions among the pods of a pod set, in the order in which pods are ungated.

The pods of a pod set are alike, so the first to arrive gets the first admission. An admission is skipped if an active
pod already carries it as its annotation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.controller.pods.node_pin import pinned_node

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zonewise_scheduler.controller.pods.managed_pod import ManagedPod
    from zonewise_scheduler.controller.pods.ungate import Ungating


def with_predictions(
    ungatings: Iterable[Ungating], pods: Iterable[ManagedPod], predicted: Mapping[tuple[str, str], Sequence[str]]
) -> list[Ungating]:
    """Return the ungatings of a workload, with predicted admissions for those that have one.

    `pods`: all pods of the workload; `predicted`: admissions by pod set and node, in order of arrival.
    """
    left = {key: list(admissions) for key, admissions in predicted.items()}
    for pod in pods:
        if pod.predicted_admission and not pod.is_held and not pod.is_terminated:
            admissions = left.get((pod.pod_set, pinned_node(pod)), [])
            if pod.predicted_admission in admissions:
                admissions.remove(pod.predicted_admission)
    return [_with_next(ungating, left.get((ungating.pod.pod_set, ungating.pin.node), [])) for ungating in ungatings]


def _with_next(ungating: Ungating, admissions: list[str]) -> Ungating:
    return ungating._replace(predicted_admission=admissions.pop(0)) if admissions else ungating
