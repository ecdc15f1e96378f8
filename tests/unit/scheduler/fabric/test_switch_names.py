"""Names of switches from their node descriptions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.fabric.switch_names import switch_names

GUIDS = [f"{number:016x}" for number in range(3)]
TEXTS = ["", "leaf", "MF0;leaf:A/U1", "MF0;leaf:A/L01/U1", "Quantum Mellanox Technologies", *GUIDS, f"leaf.{GUIDS[0]}"]


@pytest.mark.parametrize(
    ("descriptions", "names"),
    [
        (["MF0;leaf1:MQM9701/U1", "MF0;leaf2:MQM9701/U1"], ["leaf1", "leaf2"]),
        (["MF0;dir:CS7500/L01/U1", "MF0;dir:CS7500/S01/U1"], ["dir.CS7500.L01.U1", "dir.CS7500.S01.U1"]),
        (["MF0;same:A/U1", "MF0;same:A/U1"], ["same.g0", "same.g1"]),
        (["mapped-leaf"], ["mapped-leaf"]),
        (["mapped", "mapped"], ["mapped.g0", "mapped.g1"]),
        (["Quantum Mellanox Technologies", ""], ["g0", "g1"]),
    ],
)
def test_names(descriptions: list[str], names: list[str]) -> None:
    """The shortest text that is unique, and never a model."""
    guids = {f"g{i}": text for i, text in enumerate(descriptions)}
    assert list(switch_names(guids).values()) == names


@given(st.lists(st.sampled_from(TEXTS), max_size=8))
def test_names_are_unique(descriptions: list[str]) -> None:
    """Whatever the descriptions are."""
    names = switch_names({f"{i:016x}": text for i, text in enumerate(descriptions)})
    assert len(set(names.values())) == len(descriptions)
