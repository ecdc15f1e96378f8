"""The pods behind a fingerprint."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from support.ledger_kubelets import SHARED
from zonewise_common.nrt.podfingerprint import fingerprint, parse_fingerprint, pod_hash
from zonewise_scheduler.nodes.assumed.fingerprint_match import match_fingerprint
from zonewise_scheduler.nodes.assumed.pod_state import PodState


def known(place: int, *, covered: bool = False, gone: bool = False, name: str = "") -> PodState:
    name = name or f"p{place}"
    return PodState(
        f"uid-{place}",
        "jobs",
        name,
        SHARED,
        "n1",
        pod_hash("jobs", name),
        covered=covered,
        removed_at=1.0 if gone else None,
    )


def number_of(pods: list[PodState]) -> int:
    return parse_fingerprint(fingerprint((pod.namespace, pod.name) for pod in pods))


def uids(pods: list[PodState]) -> frozenset[str]:
    return frozenset(pod.uid for pod in pods)


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), max_size=9))
def test_any_set_of_few_pods(pods: list[tuple[bool, bool, bool]]) -> None:
    """Of up to nine pods every set is found, whatever is known of each."""
    every = [known(place, covered=covered, gone=gone) for place, (covered, gone, _) in enumerate(pods)]
    behind = [pod for pod, (*_, there) in zip(every, pods, strict=True) if there]
    assert match_fingerprint(number_of(behind), every) == uids(behind)


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 60), st.booleans(), st.data())
def test_many_pods(staying: int, coming: int, leaving: int, late: bool, data: st.DataObject) -> None:
    """A report that is any number of new pods behind is found, with those that left or without, and one odd pod."""
    stay = [known(place, covered=True) for place in range(staying)]
    leave = [known(100 + place, covered=True, gone=True) for place in range(leaving)]
    come = [known(200 + place) for place in range(coming)]
    behind = stay + come[: data.draw(st.integers(0, coming))] + (leave if late else [])
    assert match_fingerprint(number_of(behind), stay + leave + come) == uids(behind)
    odd = stay + come
    if odd:
        odd.remove(data.draw(st.sampled_from(odd)))
    assert match_fingerprint(number_of(odd), stay + leave + come) == uids(odd)


def test_pods_that_nobody_knows() -> None:
    """No set is made up for a fingerprint with an unknown pod."""
    pods = [known(place) for place in range(30)]
    assert match_fingerprint(number_of([*pods, known(99)]), pods) is None


def test_of_two_of_one_name_the_older_is_taken() -> None:
    old, new = known(1, covered=True, gone=True, name="web-0"), known(2, name="web-0")
    assert match_fingerprint(number_of([old]), [old, new]) == {"uid-1"}
    assert match_fingerprint(number_of([old, new]), [old, new]) == {"uid-1", "uid-2"}
