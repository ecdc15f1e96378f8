"""The pods of a fingerprint."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from support.ledger_kubelets import SHARED
from zonewise_common.nrt.podfingerprint import fingerprint, parse_fingerprint, pod_hash
from zonewise_scheduler.nodes.assumed.fingerprint_match import match_fingerprint
from zonewise_scheduler.nodes.assumed.pod_state import PodState


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
    """A report matches that lacks any number of new pods, with removed pods or without, or lacks any one pod."""
    covered = [pod_state(index, covered=True) for index in range(covered_count)]
    removed = [pod_state(100 + index, covered=True, removed=True) for index in range(removed_count)]
    new = [pod_state(200 + index) for index in range(new_count)]
    reported = covered + new[: data.draw(st.integers(0, new_count))] + (removed if includes_removed else [])
    assert match_fingerprint(fingerprint_number(reported), covered + removed + new) == uids(reported)
    without_a_pod = covered + new
    if without_a_pod:
        without_a_pod.remove(data.draw(st.sampled_from(without_a_pod)))
    assert match_fingerprint(fingerprint_number(without_a_pod), covered + removed + new) == uids(without_a_pod)


def test_unknown_pods() -> None:
    """No set matches a fingerprint with an unknown pod."""
    pods = [pod_state(index) for index in range(30)]
    assert match_fingerprint(fingerprint_number([*pods, pod_state(99)]), pods) is None


def test_older_pod_of_one_name_matches_first() -> None:
    old, new = pod_state(1, covered=True, removed=True, name="web-0"), pod_state(2, name="web-0")
    assert match_fingerprint(fingerprint_number([old]), [old, new]) == {"uid-1"}
    assert match_fingerprint(fingerprint_number([old, new]), [old, new]) == {"uid-1", "uid-2"}
