from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.fit_cluster import TWO_ZONES, kind, states
from support.any_nodes import clusters, pods
from zonewise_scheduler.admission.pod import Container, PodShape
from zonewise_scheduler.nodes.arrays.state_table import NodeStateTable
from zonewise_scheduler.nodes.noderesourcetopology import Strategy, score_node
from zonewise_scheduler.nodes.score.nrt_scores import nrt_match_score

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeState

WEIGHTS = {"cpu": 3, "memory": 1, "example.com/gpu": 5}


def _nrt(state: NodeState) -> dict[str, Any]:
    """Return the object that an agent would publish for a state, with every resource in every zone."""
    kind = state.kind
    policies = kind.policies
    cpus = dict(kind.cpus.zones)
    zones: list[dict[str, Any]] = []
    for index, zone in enumerate(kind.zones):
        free = {"cpu": (state.free_cpus & cpus.get(zone, 0)).bit_count()}
        is_single = state.memory_groups[index] == 1 << zone
        free |= {name: size * is_single for name, size in zip(kind.memory_types, state.memory_free[index], strict=True)}
        for resource, indices in kind.device_indices.items():
            is_unzoned = not any(kind.devices[device_index].zones for device_index in indices)
            counted = (
                device_index for device_index in indices if is_unzoned or kind.devices[device_index].zones >> zone & 1
            )
            free[resource] = sum(state.device_free[device_index] for device_index in counted)
        costs = [
            {"name": f"node-{target}", "value": cost}
            for target, cost in zip(kind.zones, kind.distances[index], strict=True)
        ]
        resources = [
            {"name": name, "capacity": str(count), "allocatable": str(count), "available": str(count)}
            for name, count in free.items()
        ]
        zones.append({"name": f"node-{zone}", "type": "Node", "resources": resources, "costs": costs})
    attributes = [
        {"name": "topologyManagerPolicy", "value": policies.topology},
        {"name": "topologyManagerScope", "value": policies.scope},
    ]
    return {"metadata": {"name": "n"}, "attributes": attributes, "zones": zones}


def _manifest(shape: PodShape) -> dict[str, Any]:
    def container(source: Container) -> dict[str, Any]:
        amounts = {"cpu": f"{source.milli_cpus}m"} if source.milli_cpus else {}
        amounts |= {name: str(amount) for name, amount in (*source.memory, *source.devices)}
        limits = amounts if shape.qos == "Guaranteed" else {name: str(count) for name, count in source.devices}
        manifest: dict[str, Any] = {"name": source.name, "resources": {"requests": amounts, "limits": limits}}
        return manifest | {"restartPolicy": "Always"} if source.role == "sidecar" else manifest

    init_containers = [container(source) for source in shape.containers if source.role != "app"]
    apps = [container(source) for source in shape.containers if source.role == "app"]
    return {
        "metadata": {"name": "p", "namespace": "d"},
        "spec": {"initContainers": init_containers, "containers": apps},
    }


@settings(max_examples=50)
@pytest.mark.parametrize("strategy", ["LeastAllocated", "MostAllocated", "BalancedAllocation", "LeastNUMANodes"])
@given(cluster=clusters(), pod=pods(), weighted=st.booleans())
def test_scores_agree_with_the_plugin(
    strategy: Strategy, cluster: list[NodeState], pod: PodShape, weighted: bool
) -> None:
    """On nodes with zones 0, 1, 2 and so on, the arrays give the scores of the plugin."""
    cluster = [state for state in cluster if state.kind.zones == tuple(range(len(state.kind.zones)))]
    pod = pod._replace(pod_level=None)
    weights = WEIGHTS if weighted else None
    table = NodeStateTable()
    table.set_rows(dict(enumerate(cluster)))
    scores = nrt_match_score(table, pod, strategy, weights).tolist()
    for state, score in zip(cluster, scores, strict=True):
        status = score_node(_nrt(state), _manifest(pod), strategy, weights)
        assert status.outcome == "scored"
        assert score == status.score


def test_balance_of_one_resource() -> None:
    """The plugin divides by zero and returns an arbitrary score; nrt_match_score raises an error instead."""
    table = NodeStateTable()
    table.set_rows(dict(enumerate(states(kind(TWO_ZONES), TWO_ZONES, 1))))
    with pytest.raises(ValueError, match="two resources"):
        nrt_match_score(table, PodShape((Container("a", "app", 1000),), "Guaranteed"), "BalancedAllocation")
