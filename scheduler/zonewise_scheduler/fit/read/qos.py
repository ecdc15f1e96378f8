"""The quality-of-service class of a pod that no API server has given one (pkg/apis/core/v1/helper/qos/qos.go)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.fit.model.pod import Qos


class Compute(NamedTuple):
    """Milli-CPU and bytes of memory of a container, or of a pod that has its own; 0 counts as absent."""

    requests: tuple[int, int]
    limits: tuple[int, int]


def qos_of(asked: Sequence[Compute]) -> Qos:
    """Return the class by what all containers ask for, or by what the pod does if it has resources of its own."""
    if not any(any(one.requests) or any(one.limits) for one in asked):
        return "BestEffort"
    complete = all(all(one.limits) for one in asked)
    requests = [sum(sizes) for sizes in zip(*(one.requests for one in asked), strict=True)]
    limits = [sum(sizes) for sizes in zip(*(one.limits for one in asked), strict=True)]
    return "Guaranteed" if complete and requests == limits else "Burstable"
