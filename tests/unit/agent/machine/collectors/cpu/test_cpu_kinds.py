"""Classification of cores into kinds, from values alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from support.cpu_trees import cpuset
from zonewise.machine.collectors.cpu.cpu_kinds import CpuKind, Traits, classes, kinds
from zonewise_common.k8s.cpuset import CpuSet

VALUES = st.dictionaries(st.integers(0, 15), st.integers(1, 10_000), max_size=16)
TRAITS = st.builds(
    Traits,
    st.none(),
    st.sampled_from([None, "A", "B"]),
    st.sampled_from([None, 0, 1]),
    st.sampled_from([None, 0, 1]),
    st.none(),
)


def test_turbo_bins_share_a_class() -> None:
    """Favoured cores a few percent above the others are not a separate kind; efficient ones 20% below are."""
    turbo = {0: 5000, 1: 5200, 2: 5000, 3: 5400, 4: 3900, 5: 3900}
    assert classes(turbo) == {0: 1, 1: 1, 2: 1, 3: 1, 4: 0, 5: 0}
    assert classes({}) == {}


def test_a_class_does_not_creep() -> None:
    """A class extends 10% above its lowest value, not its last one: many small steps do not connect distant values."""
    steps = {cpu: 1000 * 1.05**cpu for cpu in range(5)}
    assert classes(steps) == {0: 0, 1: 0, 2: 1, 3: 1, 4: 2}


@given(VALUES)
def test_classes_keep_the_order(values: dict[int, int]) -> None:
    """Equal values share a class, a class spans at most 10%, and a higher value never has a lower class."""
    grouped = classes(values)
    assert grouped.keys() == values.keys()
    for a in values:
        for b in values:
            if values[a] <= values[b]:
                assert grouped[a] <= grouped[b]
            if grouped[a] == grouped[b]:
                assert max(values[a], values[b]) <= 1.1 * min(values[a], values[b])
    assert set(grouped.values()) == set(range(len(set(grouped.values()))))


def test_any_trait_separates_kinds() -> None:
    """CPUs that differ in any trait are of different kinds, in ascending order of their first CPUs."""
    slow, fast = Traits(design="A", maximum=0), Traits(design="A", maximum=1)
    assert kinds({0: fast, 1: fast, 2: slow, 3: fast}) == [CpuKind(fast, cpuset("0-1,3")), CpuKind(slow, cpuset("2"))]
    assert kinds({}) == []


def test_a_cpu_with_fewer_traits() -> None:
    """The CPU belongs to the only kind that matches its known traits, or to none if several match."""
    slow, fast = Traits(design="A", capacity=0, maximum=0), Traits(design="B", capacity=1, maximum=0)
    assert kinds({0: slow, 1: fast, 2: Traits(design="B", maximum=0)}) == [
        CpuKind(slow, cpuset("0")),
        CpuKind(fast, cpuset("1-2")),
    ]
    assert kinds({0: slow, 1: fast, 2: Traits(maximum=0)}) == [CpuKind(slow, cpuset("0")), CpuKind(fast, cpuset("1"))]


def test_a_machine_without_traits_has_a_single_kind() -> None:
    """Without any trait, all CPUs are alike."""
    assert kinds(dict.fromkeys(range(4), Traits())) == [CpuKind(Traits(), cpuset("0-3"))]


@given(st.dictionaries(st.integers(0, 15), TRAITS, max_size=16))
def test_kinds_are_disjoint_and_match_the_traits(traits: dict[int, Traits]) -> None:
    """No CPU has two kinds or a kind that contradicts its traits, and a CPU with all traits known has one kind."""
    grouped = kinds(traits)
    members = [cpu for kind in grouped for cpu in kind.cpus]
    assert len(members) == len(set(members))
    assert all(traits[cpu].agrees(kind.traits) for kind in grouped for cpu in kind.cpus)
    everything = frozenset(index for each in traits.values() for index in each.known())
    whole = CpuSet(cpu for cpu, each in traits.items() if each.known() == everything)
    assert whole <= CpuSet(members)
