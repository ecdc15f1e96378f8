"""Discovery graded against the output of hwloc and lscpu for the same machine, fact by fact."""

from __future__ import annotations

import pytest

from grading.graders import GRADERS, UNGRADED
from support.snapshots import ABSENT, scan_of, snapshots

CASES = [(name, fact) for name, snapshot in snapshots().items() for fact in sorted(snapshot.expected)]


def reason_not_to_grade(name: str, fact: str) -> str | None:
    """Return the reason why a fact of a snapshot is not graded; None if it is."""
    entry = snapshots()[name].entry
    if any(disagreement["fact"] == fact for disagreement in entry.get("tools_disagree", [])):
        return "hwloc and lscpu disagree on it"
    return UNGRADED.get((name, fact)) or UNGRADED.get(("*", fact))


@pytest.mark.skipif(not CASES, reason=ABSENT)
@pytest.mark.parametrize(("name", "fact"), CASES, ids=[f"{name}::{fact}" for name, fact in CASES])
def test_fact(name: str, fact: str) -> None:
    """Discovery finds every fact that hwloc or lscpu reports about a machine, with the same value."""
    if reason := reason_not_to_grade(name, fact):
        pytest.skip(f"ungraded: {reason}")
    actual, expected = GRADERS[fact](scan_of(name).machine, snapshots()[name])
    assert actual == expected


@pytest.mark.parametrize("name", snapshots())
def test_no_collector_fails(name: str) -> None:
    """No collector raises an unexpected exception on any machine."""
    assert [run for run in scan_of(name).runs if run.outcome == "failed"] == []
