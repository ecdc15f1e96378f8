"""Errors of full-pcpus-only."""

from __future__ import annotations

import pytest

from support.cpu_nodes import STATIC, bits_of, regular, state_of
from zonewise_scheduler.admission.cpumanager import smt_alignment_error

FULL_CORES = STATIC._replace(full_cores=True)
ODD = "SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2"
FEW = (
    "SMT Alignment Error: not enough free physical CPUs: "
    "available physical CPUs = {}, requested CPUs = {}, CPUs per core = 2"
)


def test_only_with_the_option() -> None:
    """Without the option or the static policy, any count is allowed."""
    for policies in (STATIC, FULL_CORES._replace(cpu="none")):
        assert smt_alignment_error(state_of(regular(), policies), 3) is None


def test_odd_requests_are_checked_first() -> None:
    """An odd request is rejected for being odd, even if it is also too large."""
    state = state_of(regular(), FULL_CORES, bits_of("0-15"))
    assert smt_alignment_error(state, 3) == ODD


def test_siblings_of_reserved_cpus_are_not_available() -> None:
    """CPU 8 is free, but shares a core with the reserved CPU 0."""
    state = state_of(regular(reserved=1), FULL_CORES)
    assert smt_alignment_error(state, 14) is None
    assert smt_alignment_error(state, 16) == FEW.format(14, 16)


def test_half_a_core_is_available() -> None:
    """Free CPUs count even if their siblings are busy."""
    assert smt_alignment_error(state_of(regular(), FULL_CORES, bits_of("0-7")), 8) is None


@pytest.mark.parametrize("release", [(1, 31), (1, 32), (1, 36)])
def test_none_available(release: tuple[int, int]) -> None:
    """Release 1.31 blames the request if no core is available at all."""
    state = state_of(regular(), FULL_CORES._replace(release=release), bits_of("0-15"))
    blame = "SMT Alignment Error: requested 2 cpus not multiple cpus per core = 2"
    assert smt_alignment_error(state, 0) is None
    assert smt_alignment_error(state, 2) == (blame if release == (1, 31) else FEW.format(0, 2))
