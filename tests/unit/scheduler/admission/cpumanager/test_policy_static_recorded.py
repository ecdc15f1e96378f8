"""The CPU Manager, compared with recorded results of the kubelet's own functions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.cpu_nodes import bits_of, recorded, state_of_record
from zonewise_scheduler.admission.cpumanager import (
    CpuAllocationError,
    allocate_cpus,
    generate_cpu_topology_hints,
    smt_alignment_error,
)

RECORDS = [pytest.param(record, id=str(number)) for number, record in enumerate(recorded())]


@pytest.mark.parametrize("record", RECORDS)
def test_hints(record: dict[str, Any]) -> None:
    """The sets of zones, their order and their preference match. Omitting the other hints keeps the preferred ones."""
    state, reusable = state_of_record(record), bits_of(record["reusable"])
    wide, narrow = (
        generate_cpu_topology_hints(state, record["count"], reusable, include_not_preferred=include)
        for include in (True, False)
    )
    assert wide is not None
    assert narrow is not None
    assert list(wide.preferred) == list(narrow.preferred) == record["preferred"]
    assert list(wide.not_preferred) == record["others"]
    assert narrow.not_preferred == ()


@pytest.mark.parametrize("record", RECORDS)
def test_cpus(record: dict[str, Any]) -> None:
    """The CPUs or the error message match."""
    affinity = None if record["affinity"] is None else sum(1 << zone for zone in record["affinity"])

    def allocated() -> int:
        return allocate_cpus(state_of_record(record), record["count"], affinity, bits_of(record["reusable"]))

    if "cpus" in record:
        assert allocated() == bits_of(record["cpus"])
        return
    with pytest.raises(CpuAllocationError) as raised:
        allocated()
    assert str(raised.value) == record.get("error") or ("never ends" in str(raised.value) and record["endless"])


@pytest.mark.parametrize("record", RECORDS)
def test_whole_cores(record: dict[str, Any]) -> None:
    """If an error of full-pcpus-only is recorded, the message matches."""
    message = smt_alignment_error(state_of_record(record), record["count"])
    assert message == record.get("misaligned", message)


def test_all_kinds_of_results_are_recorded() -> None:
    """The records cover each option alone and combined, CPUs, errors, and requests for which the kubelet never ends."""
    text = json.dumps(recorded())
    for part in ("full_cores", "distribute_across_zones", "align_by_package", "distribute_across_cores", "endless"):
        assert part in text
    assert all(part in text for part in ("align_by_cache", "accounting error", "not enough cpus", "not multiple"))
