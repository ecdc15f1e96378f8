"""NVML's facts as JSON: equal after a round trip, and no fact has another type."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.nvml_results import stub_twin
from zonewise.machine.nvml.facts import NvmlFabric, NvmlFacts, NvmlGpu, NvmlLink, NvmlMigDevice
from zonewise.machine.nvml.facts_json import from_json, to_json
from zonewise.machine.nvml.queries import collect_nvml

TEXTS = st.none() | st.text(max_size=20)
NUMBERS = st.none() | st.integers(-(1 << 63), (1 << 64) - 1)
FLAGS = st.none() | st.booleans()
PAIRS = st.none() | st.lists(st.integers(0, 9), min_size=1, max_size=4).map(tuple)
REASONS = st.dictionaries(st.text(max_size=9), st.text(max_size=20), max_size=3)
FAULTS = st.lists(st.text(max_size=20), max_size=2).map(tuple)

FABRICS = st.builds(
    NvmlFabric, st.integers(0, 9), st.integers(0, 999), st.text(max_size=36), st.integers(0, 1 << 32), NUMBERS, NUMBERS
)
LINKS = st.builds(NvmlLink, st.integers(0, 35), st.booleans(), NUMBERS, NUMBERS, TEXTS)
BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(0, 255),
    bool: st.booleans(),
    int | None: NUMBERS,
    str | None: TEXTS,
    bool | None: FLAGS,
    tuple[int, ...] | None: PAIRS,
    NvmlFabric | None: st.none() | FABRICS,
    tuple[NvmlLink, ...]: st.lists(LINKS, max_size=3).map(tuple),
    dict[str, str]: REASONS,
    tuple[str, ...]: FAULTS,
}


def facts_strategy(kind: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for a type of facts, with each field of its own type."""
    return st.builds(kind, **{name: BY_TYPE[annotation] for name, annotation in kind.__annotations__.items()})


BY_TYPE[tuple[NvmlMigDevice, ...]] = st.lists(facts_strategy(NvmlMigDevice), max_size=2).map(tuple)
BY_TYPE[tuple[NvmlGpu, ...]] = st.lists(facts_strategy(NvmlGpu), max_size=2).map(tuple)
FACTS: st.SearchStrategy[NvmlFacts] = facts_strategy(NvmlFacts)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.text(max_size=9), parts, max_size=3),
    max_leaves=9,
)


@settings(max_examples=40)
@given(FACTS)
def test_facts_survive_a_round_trip(facts: NvmlFacts) -> None:
    """All facts of NVML survive the round trip, except that "known to be empty" becomes "unknown"."""
    text = to_json(facts)
    assert len(text.splitlines()) == 1
    assert from_json(text) == facts


@given(st.text() | JSON.map(json.dumps))
def test_anything_else_is_a_value_error(text: str) -> None:
    """No text raises another exception, and accepted texts are facts."""
    try:
        facts = from_json(text)
    except ValueError:
        return
    assert isinstance(facts, NvmlFacts)


@given(st.integers(0, 2000))
def test_a_cut_text_is_rejected(length: int) -> None:
    """A part of the text is not accepted."""
    text = to_json(collect_nvml(stub_twin()))
    with pytest.raises(ValueError, match=r".+"):
        from_json(text[: min(length, len(text) - 1)])


DAMAGES: list[dict[str, Any]] = [
    {"driver_version": 570},
    {"cuda_version": "12040"},
    {"cuda_version": True},
    {"cuda_version": 12.4},
    {"cuda_version": 1 << 65},
    {"gpus": {}},
    {"gpus": [{}]},
    {"gpus": [{"place": 0, "lost": 1}]},
    {"gpus": [{"place": 0, "compute_capability": ["9", "0"]}]},
    {"gpus": [{"place": 0, "links": [{"link": 0}]}]},
    {"gpus": [{"place": 0, "fabric": {"state": 3}}]},
    {"absent": ["gpus"]},
    {"absent": {"gpus": 5}},
]


@pytest.mark.parametrize("damage", DAMAGES, ids=str)
def test_a_fact_of_the_wrong_type_is_rejected(damage: dict[str, Any]) -> None:
    """Every field is checked at every depth."""
    with pytest.raises(ValueError, match=r" is |lacks"):
        from_json(json.dumps(damage))


def test_fields_of_later_versions_are_ignored() -> None:
    """Unknown fields are ignored, so a capture of a newer zonewise can be read."""
    text = json.dumps({"driver_version": "1.2", "new": [1], "gpus": [{"place": 0, "newer": {}}]})
    assert from_json(text) == NvmlFacts(driver_version="1.2", gpus=(NvmlGpu(0),))


def test_deep_nesting_is_rejected() -> None:
    """A text built to exhaust the stack raises ValueError like any other."""
    with pytest.raises(ValueError, match=r"deep|recursion|is '"):
        from_json('{"gpus":' + "[" * 100_000 + "]" * 100_000 + "}")
