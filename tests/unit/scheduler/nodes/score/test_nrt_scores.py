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
    """The object that another agent would publish of a state, with every resource in every zone."""
    kind = state.kind
    policies = kind.policies
    cpus = dict(kind.cpus.zones)
    zones: list[dict[str, Any]] = []
    for place, zone in enumerate(kind.zones):
        free = {"cpu": (state.free_cpus & cpus.get(zone, 0)).bit_count()}
        alone = state.memory_groups[place] == 1 << zone
        free |= {name: size * alone for name, size in zip(kind.memory_types, state.memory_free[place], strict=True)}
        for resource, places in kind.device_indices.items():
            unzoned = not any(kind.devices[one].zones for one in places)
            near = (one for one in places if unzoned or kind.devices[one].zones >> zone & 1)
            free[resource] = sum(state.device_free[one] for one in near)
        costs = [
            {"name": f"node-{other}", "value": cost}
            for other, cost in zip(kind.zones, kind.distances[place], strict=True)
        ]
        listed = [
            {"name": name, "capacity": str(some), "allocatable": str(some), "available": str(some)}
            for name, some in free.items()
        ]
        zones.append({"name": f"node-{zone}", "type": "Node", "resources": listed, "costs": costs})
    attributes = [
        {"name": "topologyManagerPolicy", "value": policies.topology},
        {"name": "topologyManagerScope", "value": policies.scope},
    ]
    return {"metadata": {"name": "n"}, "attributes": attributes, "zones": zones}


def _manifest(shape: PodShape) -> dict[str, Any]:
    def container(one: Container) -> dict[str, Any]:
        amounts = {"cpu": f"{one.milli_cpus}m"} if one.milli_cpus else {}
        amounts |= {name: str(amount) for name, amount in (*one.memory, *one.devices)}
        limits = amounts if shape.qos == "Guaranteed" else {name: str(count) for name, count in one.devices}
        made: dict[str, Any] = {"name": one.name, "resources": {"requests": amounts, "limits": limits}}
        return made | {"restartPolicy": "Always"} if one.role == "sidecar" else made

    first = [container(one) for one in shape.containers if one.role != "app"]
    apps = [container(one) for one in shape.containers if one.role == "app"]
    return {"metadata": {"name": "p", "namespace": "d"}, "spec": {"initContainers": first, "containers": apps}}


@settings(max_examples=50)
@pytest.mark.parametrize("strategy", ["LeastAllocated", "MostAllocated", "BalancedAllocation", "LeastNUMANodes"])
@given(cluster=clusters(), pod=pods(), weighted=st.booleans())
def test_all_rows_score_as_the_plugin_scores_one(
    strategy: Strategy, cluster: list[NodeState], pod: PodShape, weighted: bool
) -> None:
    """The arrays' scores are those of the literal rule, on nodes of which the zones are 0, 1, 2 and so on."""
    cluster = [state for state in cluster if state.kind.zones == tuple(range(len(state.kind.zones)))]
    pod = pod._replace(pod_level=None)
    weights = WEIGHTS if weighted else None
    table = NodeStateTable()
    table.set_rows(dict(enumerate(cluster)))
    found = nrt_match_score(table, pod, strategy, weights).tolist()
    for state, score in zip(cluster, found, strict=True):
        answer = score_node(_nrt(state), _manifest(pod), strategy, weights)
        assert answer.outcome == "scored"
        assert score == answer.score


def test_one_resource_has_no_balance() -> None:
    """The plugin divides by zero there, and scores whatever the processor makes of it; here it is an error."""
    table = NodeStateTable()
    table.set_rows(dict(enumerate(states(kind(TWO_ZONES), TWO_ZONES, 1))))
    with pytest.raises(ValueError, match="two resources"):
        nrt_match_score(table, PodShape((Container("a", "app", 1000),), "Guaranteed"), "BalancedAllocation")
