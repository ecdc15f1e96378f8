"""Pods' holdings of zones in a few bytes: written and read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.k8s.cpuset import CpuSet
from zonewise_common.nrt.holdings import NODE, UNATTRIBUTED, Holdings, holdings_key, read_holdings, write_holdings

GIB = 1 << 30
ZONES = {0: CpuSet(range(8)), 1: CpuSet(range(8, 16)), 3: CpuSet()}

amounts = st.lists(
    st.tuples(st.sampled_from(["memory", "hugepages-2Mi", "nvidia.com/gpu"]), st.sampled_from([0, 1, 2, 3, 8, 11]),
              st.integers(0, 1 << 50)),
    max_size=4, unique_by=lambda amount: amount[:2],
)  # fmt: skip
held = st.builds(
    Holdings, st.integers(0, (1 << 16) - 1), amounts.map(lambda made: tuple(sorted(made)))
)  # fmt: skip
pods = st.dictionaries(st.text("abcdefgh", min_size=1, max_size=5), held, max_size=8)


def test_the_text() -> None:
    """Each zone's text has the zone's own CPUs and amounts; an amount of several zones is in the lowest zone's text."""
    one = Holdings(0b0000_0011_0000_0111, (("memory", 0b1, 4 * GIB), ("x.y/z", 0b11, 1)))
    other = Holdings(0, (("memory", 0b11, 0), ("x.y/none", 0, 3)))
    texts = write_holdings([("bbbb", one), (UNATTRIBUTED, other)], ZONES)
    assert texts == {
        0: "-:|memory@0+1=0;bbbb:0-2|memory=4Gi|x.y/z@0+1=1",
        1: "bbbb:8-9",
        3: "",
        NODE: "-:|x.y/none=3",
    }
    assert read_holdings(texts.items()) == {"bbbb": one, UNATTRIBUTED: other}


def test_pods_with_equal_amounts_share_an_entry() -> None:
    """The amounts occur once for pods with exactly these amounts of the zone."""
    memory = (("memory", 0b1, 4 * GIB),)
    held = {"aaaa": Holdings(0b1, memory), "bbbb": Holdings(0b10, memory), "cccc": Holdings(0b100)}
    texts = write_holdings(held.items(), ZONES)
    assert texts[0] == "aaaa:0&bbbb:1|memory=4Gi;cccc:2"
    assert read_holdings(texts.items()) == held


@given(pods)
def test_read_what_is_written(by_name: dict[str, Holdings]) -> None:
    """The reader returns what was written, without pods that hold nothing; the order does not matter."""
    pairs = [(holdings_key("ns", name), each) for name, each in by_name.items()]
    texts = write_holdings(pairs, ZONES)
    assert write_holdings(reversed(pairs), ZONES) == texts
    assert read_holdings(texts.items()) == {key: each for key, each in pairs if each != Holdings()}


def test_a_key_of_two_pods_is_left_out() -> None:
    texts = write_holdings([("aaaa", Holdings(1)), ("aaaa", Holdings(2)), ("bbbb", Holdings(4))], ZONES)
    assert read_holdings(texts.items()) == {"bbbb": Holdings(4)}


@given(st.text("ab/-.", min_size=1), st.text("ab/-."))
def test_keys(namespace: str, name: str) -> None:
    """A key has four symbols, none of which is a separator of the notation."""
    key = holdings_key(namespace, name)
    assert len(key) == 4
    assert not set(key) & set(":;|=@+-&")
    assert key == holdings_key(namespace, name)
    assert holdings_key("a", "b") != holdings_key("b", "a")


@pytest.mark.parametrize(
    "text",
    [
        "aaaa",
        ":0",
        "aaaa:x",
        "aaaa:0|memory",
        "aaaa:0|=3",
        "aaaa:0|memory=x",
        "aaaa:0|memory=-1Gi",
        "aaaa:0|memory@x=1",
        "aaaa:0&",
        "aaaa:0&bbbb",
        ";",
    ],
)
def test_damage(text: str) -> None:
    """A damaged text is an error that quotes a part of it."""
    with pytest.raises(ValueError, match=r"not |invalid|negative"):
        read_holdings([(0, text)])


def test_the_size() -> None:
    """The texts of 110 pods (the kubelet's default maximum), each with 2 CPUs and memory, have at most 1.5 KB."""
    zones = {zone: CpuSet(range(zone * 128, zone * 128 + 128)) for zone in range(2)}
    pairs = [
        (
            holdings_key("namespace", f"pod-{number}"),
            Holdings(0b11 << 2 * number, (("memory", 1 + number // 64, 4 * GIB),)),
        )
        for number in range(110)
    ]
    assert sum(map(len, write_holdings(pairs, zones).values())) <= 1536
