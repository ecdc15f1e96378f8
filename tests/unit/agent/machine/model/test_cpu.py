"""The CPU sets of a machine by state."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise.machine.model.cpu import Cpus
from zonewise_common.k8s.cpuset import EMPTY, CpuSet

IDS = st.sets(st.integers(0, 63)).map(CpuSet)


def cpuset(text: str) -> CpuSet:
    return CpuSet.parse_list(text)


@pytest.mark.parametrize(
    ("online", "offline", "possible", "known"),
    [
        ("0-3", "", None, "0-3"),
        ("0-3", "4-7", None, "0-7"),
        ("0-3", "", "0-7", "0-7"),  # CPUs 4 to 7 could be plugged in
        ("0-3", "4-5", "0-7", "0-7"),
        ("0-3", "8", "0-7", "0-8"),  # the list of possible CPUs lacks one
        ("0-3,9", "4", "0-7", "0-7,9"),
        ("0-3", "", "", "0-3"),  # an empty list is damage
    ],
)
def test_known_cpus(online: str, offline: str, possible: str | None, known: str) -> None:
    """Online, offline and possible CPUs are known, even if the list of possible CPUs is incomplete."""
    cpus = Cpus(cpuset(online), cpuset(offline), None if possible is None else cpuset(possible))
    assert cpus.known() == cpuset(known)


@given(IDS, IDS, st.none() | IDS, st.none() | IDS)
def test_each_cpu_of_any_state_is_known(
    online: CpuSet, offline: CpuSet, possible: CpuSet | None, allowed: CpuSet | None
) -> None:
    """No CPU is lost or invented, and the cgroup of the reading process does not restrict the set."""
    cpus = Cpus(online, offline, possible, allowed=allowed)
    assert online <= cpus.known()
    assert offline <= cpus.known()
    assert (possible or EMPTY) <= cpus.known()
    assert set(cpus.known()) == set(online) | set(offline) | set(possible or ())
