"""Admissions of the planner, drawn with hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from zonewise_scheduler.quota.api.amount import UNLIMITED
from zonewise_scheduler.quota.api.workload_types import Admission, PodSetAdmission
from zonewise_scheduler.quota.topology.types import HOSTNAME, TopologyAssignment, TopologyDomainAssignment

Json = dict[str, Any]

TIMES = st.integers(1_700_000_000, 1_800_000_000).map(float)
_RESOURCES = st.sampled_from(["cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "nvidia.com/gpu", "pods"])
_AMOUNTS = st.integers(0, 5000) | st.sampled_from([1000, 1 << 30, 3 << 40, UNLIMITED // 1000 * 1000])
_NODE_NAMES = st.from_regex(r"(pool-)?[ab]{0,3}(-[0-9]{1,2})?", fullmatch=True)


@st.composite
def topology_assignments(draw: st.DrawFn) -> TopologyAssignment:
    """Draw assignments whose node names have common prefixes and suffixes or not, in any order."""
    levels = draw(st.sampled_from([(HOSTNAME,), ("block", "rack"), ("block", "rack", HOSTNAME)]))
    values = st.tuples(*(_NODE_NAMES for _ in levels))
    domains = st.builds(TopologyDomainAssignment, values, st.integers(1, 3))
    return TopologyAssignment(levels, tuple(draw(st.lists(domains, min_size=1, max_size=8))))


@st.composite
def _pod_set_admissions(draw: st.DrawFn, name: str) -> PodSetAdmission:
    usage = draw(st.dictionaries(_RESOURCES, _AMOUNTS, max_size=4))
    flavors = {resource: draw(st.sampled_from(["default", "spot"])) for resource in usage}
    topology = draw(st.none() | topology_assignments())
    delayed: Any = draw(st.sampled_from(["", "Ready"])) if topology else draw(st.sampled_from(["", "Pending"]))
    return PodSetAdmission(name, flavors, usage, draw(st.integers(0, 9)), topology, delayed)


@st.composite
def admissions(draw: st.DrawFn, names: tuple[str, ...] = ("main",)) -> Admission:
    """Draw admissions as the planner makes them, with or without pending checks."""
    checks = draw(st.lists(st.sampled_from(["prov", "budget"]), unique=True, max_size=2))
    pod_sets = tuple(draw(_pod_set_admissions(name)) for name in names)
    return Admission(draw(st.sampled_from(["cq", "cq-2"])), pod_sets, draw(TIMES), tuple(checks))


def pending_workload(names: tuple[str, ...] = ("main",)) -> Json:
    """Return a Workload as submitted."""
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
    return {
        "metadata": {"namespace": "ns", "name": "w", "uid": "u", "generation": 2},
        "spec": {"queueName": "q", "podSets": [{"name": name, "count": 9, "template": template} for name in names]},
    }
