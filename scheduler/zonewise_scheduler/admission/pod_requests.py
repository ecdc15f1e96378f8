"""The total requests of a pod, by the rules that kubelets, schedulers and the API server share.

Source: k8s.io/component-helpers/resource/helpers.go. The caller chooses the unit of each resource. Pod shapes use
milli-CPU and bytes. API objects use thousandths, which are rounded up after they are added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.admission.resource_names import CPU, HUGEPAGES_PREFIX, MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_common.k8s.podspec import Role

Sums = dict[str, int]


def aggregate_container_requests(containers: Iterable[tuple[Role, Iterable[tuple[str, int]]]]) -> Sums:
    """Return the peak requests of containers over time, init containers first (AggregateContainerRequests).

    Init containers run one at a time, each together with the sidecars before it. Then all other containers run together
    (KEP-753, "Resources calculation for scheduling and pod admission").
    """
    long_running: Sums = {}
    sidecars: Sums = {}
    init_peaks: Sums = {}
    for role, amounts in containers:
        for name, amount in amounts:
            if role == "init":
                peak = sidecars.get(name, 0) + amount
                init_peaks[name] = max(peak, init_peaks.get(name, peak))
                continue
            long_running[name] = long_running.get(name, 0) + amount
            if role == "sidecar":
                sidecars[name] = sidecars.get(name, 0) + amount
    return long_running | {name: max(peak, long_running.get(name, peak)) for name, peak in init_peaks.items()}


def combine_pod_requests(
    container_requests: Mapping[str, int], pod_level_requests: Mapping[str, int], overhead: Iterable[tuple[str, int]]
) -> Sums:
    """Return the total requests of a pod (PodRequests).

    Pod-level requests (KEP-2837) replace those of the containers. The overhead of the runtime class is added.
    """
    totals = {**container_requests, **pod_level_requests}
    for name, amount in overhead:
        totals[name] = totals.get(name, 0) + amount
    return totals


def default_pod_resources(
    requests: Mapping[str, int], limits: Mapping[str, int], container_requests: Mapping[str, int]
) -> tuple[Sums, Sums]:
    """Return pod-level requests and limits with the API server's defaults; both are empty if the pod has neither.

    Limits for hugepages default to the containers' requests. If the pod has any limit, requests for CPU and memory
    default to the containers' requests, or otherwise to the limit (pkg/apis/core/v1/defaults.go
    defaultHugePagePodLimits, defaultPodRequests).
    """
    if not requests and not limits:
        return {}, {}
    hugepages = {
        name: size
        for name, size in container_requests.items()
        if name.startswith(HUGEPAGES_PREFIX) and name not in requests
    }
    limits = hugepages | dict(limits)
    inherited = {name: container_requests[name] for name in (CPU, MEMORY) if limits and name in container_requests}
    return {**limits, **inherited, **requests}, limits
