"""Objects of Kueue's kinds in a test's notation: one resource group, one flavor, one queue."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def resource_groups(quotas: Json, flavor: str = "f", **limits: object) -> list[Json]:
    """Return a queue's only resource group: nominal quotas of one flavor by resource, with the same limits."""
    resources = [{"name": resource, "nominalQuota": quota, **limits} for resource, quota in quotas.items()]
    return [{"coveredResources": list(quotas), "flavors": [{"name": flavor, "resources": resources}]}]


def cluster_queue_spec(quotas: Json, flavor: str = "f", **fields: object) -> Json:
    """Return the spec of a ClusterQueue that serves all namespaces, with extra fields."""
    return {"namespaceSelector": {}, "resourceGroups": resource_groups(quotas, flavor), **fields}


def planner_objects(
    quotas: Json, flavor: Json | None = None, levels: tuple[str, ...] = (), **spec: Any
) -> dict[str, list[Json]]:
    """Return the input of PlannerFeed.configure(): LocalQueue ns/l of ClusterQueue q, with quotas of flavor f.

    `flavor`: the spec of the flavor; `levels`: the node labels of Topology t, if any; `spec`: fields of the queue.
    """
    topology = {"metadata": {"name": "t"}, "spec": {"levels": [{"nodeLabel": level} for level in levels]}}
    return {
        "clusterQueues": [{"metadata": {"name": "q"}, "spec": cluster_queue_spec(quotas, **spec)}],
        "cohorts": [],
        "resourceFlavors": [{"metadata": {"name": "f"}, "spec": flavor or {}}],
        "localQueues": [{"metadata": {"namespace": "ns", "name": "l"}, "spec": {"clusterQueue": "q"}}],
        "topologies": [topology] if levels else [],
    }
