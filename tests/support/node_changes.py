"""Changes of nodes as the planner gets them (tas/cluster_nodes.py)."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from support.fit_nodes import STRICT, container, node, pod
from support.reported_pods import key_of, running_node

Json = dict[str, Any]

WIDE = pod(container(cpus=6, gib=4))
"""A pod of which a zone of 8 CPUs can hold one."""


def node_change(name: str, cpus: int = 16, *, ready: str = "True", rack: str = "x", **spec: Any) -> Json:
    return {
        "node": name,
        "object": json.dumps(
            {
                "metadata": {"name": name, "labels": {"rack": rack, "fast": "yes"}},
                "spec": spec,
                "status": {
                    "allocatable": {"cpu": str(cpus), "memory": "64Gi", "pods": "110"},
                    "conditions": [{"type": "Ready", "status": ready}],
                    "nodeInfo": {"kubeletVersion": "v1.36.2"},
                },
            }
        ),
    }


def usage_change(name: str, cpus: int) -> Json:
    return {"node": name, "usage": {"cpu": cpus}, "pods": 1}


def report_change(name: str, pods: int | None) -> Json:
    """Return a report with pods p0, p1, ...; `pods` is None for a deleted report."""
    if pods is None:
        return {"node": name, "report": None}
    return {"node": name, "report": running_node(node(2, 4, **STRICT), [WIDE] * pods).report(name)}


def pod_change(name: str, number: int, pod: Json | None) -> Json:
    return {"node": name, "queuePods": {key_of(f"p{number}"): pod}}


def deletion(name: str) -> Json:
    return {"node": name, "object": None}


NAMES = st.sampled_from("abc")
POD_CHANGES: list[Json | None] = [
    None,
    {"workload": "ns/w", "podSet": "main"},
    {"gone": True},
    {"gone": True, "ended": True},
]
CHANGES = st.one_of(
    st.builds(
        node_change,
        NAMES,
        st.sampled_from([4, 8, 16]),
        ready=st.sampled_from(["True", "True", "False"]),
        rack=st.sampled_from("xy"),
    ),
    st.builds(deletion, NAMES),
    st.builds(usage_change, NAMES, st.sampled_from([0, 500, 3000])),
    st.builds(report_change, NAMES, st.sampled_from([0, 1, 2, None])),
    st.builds(pod_change, NAMES, st.integers(0, 1), st.sampled_from(POD_CHANGES)),
)
