"""Whether List tells of all pods: for a second or so after a kubelet's start it does not (the study, section 4.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.usage.pod_matching import match_pods

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise.kubelet.types import KubeletReport, PodResources

PodName = tuple[str, str]
"""Namespace and name of a pod."""


def is_listed(name: PodName, pods: Iterable[PodResources]) -> bool:
    """Tell whether List tells of a pod."""
    return any((pod.namespace, pod.name) == name for pod in pods)


def incomplete_list_reason(report: KubeletReport, own: PodName | None = None) -> str | None:
    """Return why List may lack pods that are alive, a sentence; None where nothing speaks for it.

    `own` is the pod that we run in. What speaks for it may also be of pods that have just ended, or, where it is not
    known which have a cgroup, of some that are long gone: it is to be asked after a kubelet's start only.
    """
    if own is not None and not is_listed(own, report.pods):
        return f"it does not know yet that our own pod {own[0]}/{own[1]} runs"
    unlisted = match_pods(report.pods, report.state, report.active).unlisted
    if unlisted:
        return f"List does not yet tell of pods that hold something by the kubelet's files, {len(unlisted)} of them"
    if report.active is not None and len(report.pods) < len(report.active):
        return f"List does not yet tell of all pods: it has {len(report.pods)}, and cgroups are of {len(report.active)}"
    return None
