"""What a pod requests as one: the rules that kubelets, schedulers and the API server share.

k8s.io/component-helpers/resource/helpers.go. Amounts are by resource, each in one unit of the caller's choice: shapes
of pods are in milli-CPU and bytes, objects of the API in thousandths, which are rounded up once they are added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.admission.resource_names import CPU, HUGEPAGES_PREFIX, MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_scheduler.admission.pod import Role

Sums = dict[str, int]


def aggregate_container_requests(containers: Iterable[tuple[Role, Iterable[tuple[str, int]]]]) -> Sums:
    """Return what containers, init containers first, have at most at one time.

    Init containers run one by one, each beside the sidecars before it; in the end all others run together.
    AggregateContainerRequests; KEP-753, "Resources calculation for scheduling and pod admission".
    """
    lasting: Sums = {}
    sidecars: Sums = {}
    most: Sums = {}
    for role, amounts in containers:
        for name, amount in amounts:
            if role == "init":
                most[name] = max(most.get(name, 0), sidecars.get(name, 0) + amount)
                continue
            lasting[name] = lasting.get(name, 0) + amount
            if role == "sidecar":
                sidecars[name] = sidecars.get(name, 0) + amount
    return {name: max(lasting.get(name, 0), most.get(name, 0)) for name in lasting | most}


def combine_pod_requests(
    container_requests: Mapping[str, int], pod_level_requests: Mapping[str, int], overhead: Iterable[tuple[str, int]]
) -> Sums:
    """Return what a pod requests (PodRequests).

    What it requests itself (KEP-2837) stands for what its containers request together; the overhead of its runtime
    class comes on top.
    """
    found = {**container_requests, **pod_level_requests}
    for name, amount in overhead:
        found[name] = found.get(name, 0) + amount
    return found


def default_pod_resources(
    requests: Mapping[str, int], limits: Mapping[str, int], container_requests: Mapping[str, int]
) -> tuple[Sums, Sums]:
    """Return a pod's own requests and limits with the API server's defaults; none where it has neither.

    Limits of hugepages default to what the containers request together; where the pod has any limit, requests of CPUs
    and memory default to the containers', and else to the limit (pkg/apis/core/v1/defaults.go
    defaultHugePagePodLimits, defaultPodRequests).
    """
    if not requests and not limits:
        return {}, {}
    pages = {
        name: size
        for name, size in container_requests.items()
        if name.startswith(HUGEPAGES_PREFIX) and name not in requests
    }
    limits = pages | dict(limits)
    shared = {name: container_requests[name] for name in (CPU, MEMORY) if limits and name in container_requests}
    return {**limits, **shared, **requests}, limits
