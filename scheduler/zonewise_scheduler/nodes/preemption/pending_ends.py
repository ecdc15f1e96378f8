"""Predicts whether a kubelet admits a pod at each moment while other pods are terminating.

A terminating pod may end before the pod arrives or after it, and its end may let the kubelet reject the pod. Each
container gets the lowest zone that has enough. An init container may thus get a zone that has just become free. The CPU
Manager then allocates the other containers from the zone of these CPUs, or rejects the pod
(generateCPUTopologyHints of cpumanager/policy_static.go).
"""

from __future__ import annotations

from itertools import chain, combinations, islice
from typing import TYPE_CHECKING

from zonewise_scheduler.nodes.preemption.admissions import Admissions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zonewise_scheduler.admission.node import NodeKind
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.nodes.preemption.types import OccupiedNode, RunningPod

MAX_SETS = 8
"""Maximum number of sets of ended pods that count, in addition to all of them: each takes about 0.1 ms."""


def is_admitted_throughout(node: OccupiedNode, shape: PodShape) -> bool:
    """Return whether the kubelet admits a pod, whichever terminating pods have ended when it arrives.

    Return True also if the kubelet does not surely admit it before any of them ends: then the ends decide nothing.
    """
    ending = [pod for pod in node.pods if pod.terminating and pod.holdings is not None]
    if not ending or not _aligns_containers(node.state.kind, shape) or not _is_admitted_after((), node, shape):
        return True
    return all(_is_admitted_after(ended, node, shape) for ended in _sets_of_ends(ending))


def _aligns_containers(kind: NodeKind, shape: PodShape) -> bool:
    """Return whether a kubelet aligns several containers one by one, or rejects the pod."""
    policies = kind.policies
    is_strict = policies.topology in {"restricted", "single-numa-node"}
    return is_strict and policies.scope == "container" and len(shape.containers) > 1


def _sets_of_ends(ending: Sequence[RunningPod]) -> Iterator[tuple[RunningPod, ...]]:
    """Yield the smallest sets of pods, and all pods together."""
    smaller = chain.from_iterable(combinations(ending, size) for size in range(1, len(ending)))
    yield from islice(smaller, MAX_SETS)
    yield tuple(ending)


def _is_admitted_after(ended: Sequence[RunningPod], node: OccupiedNode, shape: PodShape) -> bool:
    """Return whether the kubelet surely admits a pod after exactly these pods have ended."""
    uids = {pod.uid for pod in ended}
    pods = tuple(pod._replace(terminating=pod.uid in uids) for pod in node.pods)
    return Admissions(node._replace(pods=pods, nominated=(), info=None), shape).admitted(())
