"""The CPU Manager, compared with recorded results of the kubelet's own functions."""

from __future__ import annotations

import json
from typing import Any

from support.cpu_nodes import bits_of, recorded, state_of_record
from zonewise_scheduler.admission.cpumanager import (
    CpuAllocationError,
    allocate_cpus,
    generate_cpu_topology_hints,
    smt_alignment_error,
)


def test_hints() -> None:
    """The sets of zones, their order and their preference match. Omitting the other hints keeps the preferred ones."""
    for i, record in enumerate(recorded()):
        state, reusable = state_of_record(record), bits_of(record["reusable"])
        wide, narrow = (
            generate_cpu_topology_hints(state, record["count"], reusable, include_not_preferred=include)
            for include in (True, False)
        )
        assert wide is not None, i
        assert narrow is not None, i
        assert list(wide.preferred) == list(narrow.preferred) == record["preferred"], i
        assert list(wide.not_preferred) == record["others"], i
        assert narrow.not_preferred == (), i


def test_cpus() -> None:
    """The CPUs or the error message match."""
    for i, record in enumerate(recorded()):
        result = _allocated(record)
        if "cpus" in record:
            assert result == bits_of(record["cpus"]), i
        else:
            message = str(result)
            assert message == record.get("error") or ("never ends" in message and record["endless"]), i


def _allocated(record: dict[str, Any]) -> int | CpuAllocationError:
    affinity = None if record["affinity"] is None else sum(1 << zone for zone in record["affinity"])
    try:
        return allocate_cpus(state_of_record(record), record["count"], affinity, bits_of(record["reusable"]))
    except CpuAllocationError as error:
        return error


def test_whole_cores() -> None:
    """If an error of full-pcpus-only is recorded, the message matches."""
    for i, record in enumerate(recorded()):
        message = smt_alignment_error(state_of_record(record), record["count"])
        assert message == record.get("misaligned", message), i


def test_all_kinds_of_results_are_recorded() -> None:
    """The records cover each option alone and combined, CPUs, errors, and requests for which the kubelet never ends."""
    text = json.dumps(recorded())
    for part in ("full_cores", "distribute_across_zones", "align_by_package", "distribute_across_cores", "endless"):
        assert part in text
    assert all(part in text for part in ("align_by_cache", "accounting error", "not enough cpus", "not multiple"))
