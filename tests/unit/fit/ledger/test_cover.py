"""The pods behind a fingerprint."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.ledger_world import SHARED
from zonewise.topology.fingerprint import fingerprint
from zonewise_scheduler.fit.ledger.cover import covered_by
from zonewise_scheduler.fit.ledger.known import Known
from zonewise_scheduler.fit.ledger.signs import packed, sign_of_pod, sign_of_pods, sign_of_text

NAMES = st.text(min_size=1, max_size=9)


def known(place: int, *, covered: bool = False, gone: bool = False, name: str = "") -> Known:
    name = name or f"p{place}"
    return Known(
        f"uid-{place}",
        "jobs",
        name,
        SHARED,
        "n1",
        sign_of_pod("jobs", name),
        covered=covered,
        gone=1.0 if gone else None,
    )


def sign_of(pods: list[Known]) -> int:
    sign = sign_of_text(fingerprint((pod.namespace, pod.name) for pod in pods))
    assert sign is not None
    return sign


def uids(pods: list[Known]) -> frozenset[str]:
    return frozenset(pod.uid for pod in pods)


@given(st.lists(st.tuples(NAMES, NAMES), max_size=9))
def test_numbers_are_those_of_the_text(pods: list[tuple[str, str]]) -> None:
    hashes = sorted(sign_of_pod(namespace, name) for namespace, name in pods)
    assert sign_of_text(fingerprint(pods)) == sign_of_pods(map(packed, hashes))


@pytest.mark.parametrize("text", ["", "pfp0v001", "pfp0v002" + "0" * 16, "pfp0v001" + "x" * 16, "0" * 16])
def test_texts_that_are_no_fingerprints_that_we_know(text: str) -> None:
    assert sign_of_text(text) is None


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), max_size=9))
def test_any_set_of_few_pods(pods: list[tuple[bool, bool, bool]]) -> None:
    """Of up to nine pods every set is found, whatever is known of each."""
    every = [known(place, covered=covered, gone=gone) for place, (covered, gone, _) in enumerate(pods)]
    behind = [pod for pod, (*_, there) in zip(every, pods, strict=True) if there]
    assert covered_by(sign_of(behind), every) == uids(behind)


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 60), st.booleans(), st.data())
def test_many_pods(staying: int, coming: int, leaving: int, late: bool, data: st.DataObject) -> None:
    """A report that is any number of new pods behind is found, with those that left or without, and one odd pod."""
    stay = [known(place, covered=True) for place in range(staying)]
    leave = [known(100 + place, covered=True, gone=True) for place in range(leaving)]
    come = [known(200 + place) for place in range(coming)]
    behind = stay + come[: data.draw(st.integers(0, coming))] + (leave if late else [])
    assert covered_by(sign_of(behind), stay + leave + come) == uids(behind)
    odd = stay + come
    if odd:
        odd.remove(data.draw(st.sampled_from(odd)))
    assert covered_by(sign_of(odd), stay + leave + come) == uids(odd)


def test_pods_that_nobody_knows() -> None:
    """No set is made up for a fingerprint with an unknown pod."""
    pods = [known(place) for place in range(30)]
    assert covered_by(sign_of([*pods, known(99)]), pods) is None


def test_of_two_of_one_name_the_older_is_taken() -> None:
    old, new = known(1, covered=True, gone=True, name="web-0"), known(2, name="web-0")
    assert covered_by(sign_of([old]), [old, new]) == {"uid-1"}
    assert covered_by(sign_of([old, new]), [old, new]) == {"uid-1", "uid-2"}
