"""The kubelet's configuration, read from the attributes of a report."""

from __future__ import annotations

import pytest

from zonewise_common.nrt import names
from zonewise_scheduler.admission.node import Policies
from zonewise_scheduler.admission.report.kubelet_policies import read_policies

NOW = (1, 36)


def test_absent_attributes_are_the_kubelets_defaults() -> None:
    assert read_policies({}, (), Policies().release) == (Policies(), ())


@pytest.mark.parametrize(
    ("text", "count"),
    [("0", 0), ("9", 9), ("0016", 16), ("99999999", 99999999), ("100000000", 8), ("1000000000", 8), ("²", 8), ("", 8)],
)
def test_a_count_of_zones_has_up_to_eight_digits(text: str, count: int) -> None:
    """Any other text is a problem, and the kubelet's default is used."""
    policies, problems = read_policies({names.TOPOLOGY_MANAGER_MAX_NUMA_NODES: text}, (), NOW)
    assert policies.max_zones == count
    assert bool(problems) is (count == 8)


@pytest.mark.parametrize("name", [names.TOPOLOGY_MANAGER_MAX_NUMA_NODES, names.TOPOLOGY_MANAGER_POLICY])
def test_a_problem_quotes_the_first_eighty_characters(name: str) -> None:
    text = "".join(chr(ord("a") + index % 26) for index in range(200))
    _, (problem,) = read_policies({name: text}, (), NOW)
    assert problem.endswith(f": '{text[:80]}'")


@pytest.mark.parametrize(
    ("deprecated", "policy", "scope"),
    [
        ((), "none", "container"),
        (("RestrictedPodLevel",), "restricted", "pod"),
        (("BestEffort", "RestrictedPodLevel"), "best-effort", "container"),
    ],
)
def test_the_first_deprecated_policy_is_used(deprecated: tuple[str, ...], policy: str, scope: str) -> None:
    policies, problems = read_policies({}, deprecated, NOW)
    assert (policies.topology, policies.scope, problems) == (policy, scope, ())
