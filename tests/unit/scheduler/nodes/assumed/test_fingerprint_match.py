"""The pods that a fingerprint covers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from support.ledger_kubelets import SHARED
from zonewise_common.nrt.podfingerprint import fingerprint, parse_fingerprint, pod_hash
from zonewise_scheduler.nodes.assumed import fingerprint_match
from zonewise_scheduler.nodes.assumed.fingerprint_match import MAX_FLIPPED, FingerprintMatcher, match_fingerprint
from zonewise_scheduler.nodes.assumed.pod_state import PodState

if TYPE_CHECKING:
    import pytest


def pod_state(index: int, *, covered: bool = False, removed: bool = False, name: str = "") -> PodState:
    name = name or f"p{index}"
    return PodState(
        f"uid-{index}",
        "jobs",
        name,
        SHARED,
        "n1",
        pod_hash("jobs", name),
        covered=covered,
        removed_at=1.0 if removed else None,
    )


def fingerprint_number(pods: list[PodState]) -> int:
    return parse_fingerprint(fingerprint((pod.namespace, pod.name) for pod in pods))


def uids(pods: list[PodState]) -> frozenset[str]:
    return frozenset(pod.uid for pod in pods)


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), max_size=9))
def test_all_sets_of_few_pods(pods: list[tuple[bool, bool, bool]]) -> None:
    """Every set of up to nine pods matches, in any state of the pods."""
    known = [pod_state(index, covered=covered, removed=removed) for index, (covered, removed, _) in enumerate(pods)]
    reported = [pod for pod, (*_, is_reported) in zip(known, pods, strict=True) if is_reported]
    assert match_fingerprint(fingerprint_number(reported), known) == uids(reported)


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 60), st.booleans(), st.data())
def test_many_pods(
    covered_count: int, new_count: int, removed_count: int, includes_removed: bool, data: st.DataObject
) -> None:
    """Reports match that lack any number of new pods, with or without the removed ones, or that lack any one pod."""
    covered = [pod_state(index, covered=True) for index in range(covered_count)]
    removed = [pod_state(100 + index, covered=True, removed=True) for index in range(removed_count)]
    new = [pod_state(200 + index) for index in range(new_count)]
    reported = covered + new[: data.draw(st.integers(0, new_count))] + (removed if includes_removed else [])
    assert match_fingerprint(fingerprint_number(reported), covered + removed + new) == uids(reported)
    without_a_pod = covered + new
    if without_a_pod:
        without_a_pod.remove(data.draw(st.sampled_from(without_a_pod)))
    assert match_fingerprint(fingerprint_number(without_a_pod), covered + removed + new) == uids(without_a_pod)


def test_the_current_report_matches_again() -> None:
    """While an agent is down, its report still covers pods that have ended, however many pods have come and gone."""
    covered = [pod_state(index, covered=True, removed=True) for index in range(10)]
    short = [pod_state(100 + index, removed=True) for index in range(30)]
    new = [pod_state(200 + index) for index in range(10)]
    assert match_fingerprint(fingerprint_number(covered), covered + short + new) == uids(covered)
    assert match_fingerprint(fingerprint_number(covered + new[:3]), covered + short + new) == uids(covered + new[:3])


def test_unknown_pods() -> None:
    """No set of pods matches a fingerprint that covers an unknown pod."""
    pods = [pod_state(index) for index in range(30)]
    assert match_fingerprint(fingerprint_number([*pods, pod_state(99)]), pods) is None


@given(st.data(), st.integers(1, 20))
def test_sets_close_to_the_living_pods_match(data: st.DataObject, count: int) -> None:
    """Every set matches that differs from the living pods in at most three pods, including pods of equal names."""
    names = data.draw(st.lists(st.sampled_from([f"p{index}" for index in range(12)]), min_size=count, max_size=count))
    seen: set[str] = set()
    known: list[PodState] = []
    for index, name in reversed(list(enumerate(names))):  # of pods with equal names, only the last one is alive
        removed = name in seen or data.draw(st.booleans())
        seen.add(name)
        known.insert(0, pod_state(index, covered=data.draw(st.booleans()), removed=removed, name=name))
    reported = [pod for pod in known if pod.removed_at is None]
    for pod in data.draw(st.lists(st.sampled_from(known), max_size=2, unique_by=lambda pod: pod.uid)):
        reported = [other for other in reported if other is not pod] if pod in reported else [*reported, pod]
    matched = match_fingerprint(fingerprint_number(reported), known)
    assert matched is not None
    assert fingerprint_number([pod for pod in known if pod.uid in matched]) == fingerprint_number(reported)


def test_failed_searches_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal pods are not searched again for the same fingerprint, and a hopeless search gets shorter each time."""
    budgets: list[int] = []

    def counted(number: int, pods: list[PodState], flipped: int) -> frozenset[str] | None:
        budgets.append(flipped)
        return match_fingerprint(number, pods, flipped)

    monkeypatch.setattr(fingerprint_match, "match_fingerprint", counted)
    pods = [pod_state(index, covered=True) for index in range(20)]
    hidden = pod_state(99)
    matcher = FingerprintMatcher()
    for _ in range(3):
        assert matcher.match(fingerprint_number([*pods, hidden]), pods) is None
    assert budgets == [MAX_FLIPPED]
    for index in range(20, 40):
        pods.append(pod_state(index))
        assert matcher.match(fingerprint_number([*pods, hidden]), pods) is None
    assert budgets[1:4] == [MAX_FLIPPED // 2, MAX_FLIPPED // 4, MAX_FLIPPED // 8]
    assert budgets[-1] == 32
    assert matcher.match(fingerprint_number(pods[:-1]), pods) == uids(pods[:-1])
    assert matcher.match(fingerprint_number(pods), pods) == uids(pods)
    assert budgets[-2:] == [32, MAX_FLIPPED]


def test_a_removed_pod_causes_a_new_search() -> None:
    """A failed search is repeated after the event that explains the fingerprint."""
    pods = [pod_state(index, covered=True) for index in range(40)]
    number = fingerprint_number(pods[5:])
    matcher = FingerprintMatcher()
    assert matcher.match(number, pods) is None
    for pod in pods[:5]:
        pod.removed_at = 1.0
    assert matcher.match(number, pods) == uids(pods[5:])


def test_older_pod_of_one_name_matches_first() -> None:
    old, new = pod_state(1, covered=True, removed=True, name="web-0"), pod_state(2, name="web-0")
    assert match_fingerprint(fingerprint_number([old]), [old, new]) == {"uid-1"}
    assert match_fingerprint(fingerprint_number([old, new]), [old, new]) == {"uid-1", "uid-2"}
