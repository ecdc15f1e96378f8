"""The pod fingerprint equals that of the algorithm's authors, for any pods in any order."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.kubelet_cases import ABSENT, CASES
from zonewise_common.nrt.podfingerprint import fingerprint, fingerprint_number, pack_hash, parse_fingerprint, pod_hash

VECTORS = CASES / "podfingerprint_vectors.json"
EMPTY = "pfp0v001ef46db3751d8e999"

pods = st.lists(st.tuples(st.text(max_size=20), st.text(max_size=20)), max_size=20)


def vectors() -> list[Any]:
    return json.loads(VECTORS.read_text()) if VECTORS.exists() else []


@pytest.mark.skipif(not VECTORS.exists(), reason=ABSENT)
@pytest.mark.parametrize("vector", vectors(), ids=lambda vector: vector["description"])
def test_vectors(vector: Any) -> None:
    """The fingerprints equal the recorded ones."""
    text = [(pod["namespace"], pod["name"]) for pod in vector["pods"]]
    assert fingerprint(text) == vector["expected"]


def test_no_pods() -> None:
    """An empty node also has a fingerprint."""
    assert fingerprint([]) == EMPTY


@given(pods, st.data())
def test_the_order_makes_no_difference(text: list[tuple[str, str]], data: st.DataObject) -> None:
    """Any permutation has the same fingerprint."""
    assert fingerprint(data.draw(st.permutations(text))) == fingerprint(text)


@given(pods, st.tuples(st.text(max_size=20), st.text(max_size=20)))
def test_one_more_pod_changes_the_fingerprint(text: list[tuple[str, str]], pod: tuple[str, str]) -> None:
    """One more pod changes the fingerprint, even if it has the name of another one."""
    assert fingerprint([*text, pod]) != fingerprint(text)


@given(pods)
def test_its_form(text: list[tuple[str, str]]) -> None:
    """A fingerprint has 24 characters: the name and version of the algorithm, and 16 hexadecimal digits."""
    sign = fingerprint(text)
    assert len(sign) == 24
    assert sign.startswith("pfp0v001")
    assert parse_fingerprint(sign) == int(sign[8:], 16)


@given(pods)
def test_it_is_the_hash_of_the_hashes_of_its_pods(text: list[tuple[str, str]]) -> None:
    """A caller that has the hashes need not hash the names again."""
    assert parse_fingerprint(fingerprint(text)) == fingerprint_number(
        map(pack_hash, sorted(pod_hash(*pod) for pod in text))
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "pfp0v001",
        EMPTY[8:],
        f"xxx0v001{EMPTY[8:]}",
        f"pfp0v002{EMPTY[8:]}",
        f"{EMPTY}0",
        f"{EMPTY[:-1]}x",
        f"{EMPTY[:-2]}_1",
    ],
)
def test_no_fingerprint(text: str) -> None:
    """A text that is not a fingerprint of this version is an error, not a difference."""
    with pytest.raises(ValueError, match="not a pod fingerprint"):
        parse_fingerprint(text)
