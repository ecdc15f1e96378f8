"""Who shares what: from the files of each CPU, as few as can be, and with whatever contradictions there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from support.cpu_trees import cpuset, line, mask, reader
from zonewise.machine.collectors.cpu.sharing import Notations, Shared, own_set, partition, shown
from zonewise_common.k8s.cpuset import EMPTY, CpuSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from support.trees import Contents
    from zonewise.machine.reader import Reader

BOTH = Notations(("new", "old"), ("new_list", "old_list"))
KNOWN = cpuset("0-15")
CPUS = range(16)


def parted(
    views: Mapping[int, CpuSet | None], read: Reader | None = None, within: CpuSet | None = None
) -> tuple[list[CpuSet], list[int]]:
    """The sets that CPUs with these views share, and the CPUs that were asked, in order."""
    asked: list[int] = []

    def own(cpu: int) -> Shared | None:
        asked.append(cpu)
        view = views[cpu]
        return None if view is None else Shared(view, f"cpu{cpu}/mask")

    found = partition(
        read or reader({"x": b""}), CpuSet(views), own, lambda cpu: f"cpu{cpu}/mask", "thing", within=within
    )
    return [shared.cpus for shared in found], asked


@st.composite
def partitions(draw: st.DrawFn) -> list[CpuSet]:
    """A partition of some CPUs."""
    owners = draw(st.lists(st.integers(0, 5), min_size=1, max_size=16))
    sets = [CpuSet(cpu for cpu, owner in enumerate(owners) if owner == wanted) for wanted in set(owners)]
    return sorted(sets, key=CpuSet.first)


def views_of(sets: list[CpuSet]) -> dict[int, CpuSet | None]:
    """What each CPU says of itself where nothing is wrong."""
    return {cpu: one for one in sets for cpu in one}


@given(partitions())
def test_what_is_consistent_is_found(sets: list[CpuSet]) -> None:
    """Any partition is found as it is, ascending, and without a problem."""
    read = reader({"x": b""})
    assert parted(views_of(sets), read)[0] == sets
    assert read.problems == []


@given(st.integers(1, 8), st.integers(1, 2))
def test_one_file_is_read_for_each_set(sets: int, size: int) -> None:
    """Where sets are alike, only the first CPU of each is asked."""
    made = [CpuSet(range(first * size, (first + 1) * size)) for first in range(sets)]
    assert parted(views_of(made))[1] == [one.first() for one in made]


@given(partitions(), st.data())
def test_lost_words_lose_nothing_that_others_tell(sets: list[CpuSet], data: st.DataObject) -> None:
    """A set is found as long as one of its CPUs says it, and a CPU that is in none is reported."""
    views = views_of(sets)
    mute = data.draw(st.sets(st.sampled_from(sorted(views)), max_size=4))
    read = reader({"x": b""})
    found, _ = parted({cpu: None if cpu in mute else view for cpu, view in views.items()}, read)
    assert found == [one for one in sets if not one <= CpuSet(mute)]
    reported = {problem.path: problem.used for problem in read.problems}
    lost = [cpu for cpu in views if not any(cpu in one for one in found)]
    assert [reported.get(f"/cpu{cpu}/mask") for cpu in lost] == [f"the thing of CPU {cpu} is unknown" for cpu in lost]
    assert all(reported.values())


@given(st.dictionaries(st.sampled_from(CPUS), st.none() | st.frozensets(st.sampled_from(CPUS)), min_size=1))
def test_whatever_is_said_the_sets_are_disjoint(noise: dict[int, frozenset[int] | None]) -> None:
    """Any contradictions: what is listed overlaps nothing else listed, is said by a member, and holds no stranger."""
    views = {cpu: None if said is None else CpuSet({cpu, *said}) for cpu, said in noise.items()}
    found, _ = parted(views)
    assert sum(len(one) for one in found) == len({cpu for one in found for cpu in one})
    clipped = {view & CpuSet(views) for view in views.values() if view is not None}
    assert all(one in clipped for one in found)


def test_a_set_that_not_all_of_its_cpus_say_is_dropped() -> None:
    """One CPU of the second package claims CPUs of the first: neither its word nor what it denies is listed."""
    views: dict[int, CpuSet | None] = {cpu: cpuset("0-3") for cpu in range(4)}
    views |= {cpu: cpuset("4-7") for cpu in range(4, 8)} | {cpu: cpuset("8-11") for cpu in range(8, 12)}
    read = reader({"x": b""})
    found, _ = parted(views | {5: cpuset("3-5")}, read)
    assert found == [cpuset("0-3"), cpuset("4-7"), cpuset("8-11")]  # CPU 5 is never asked, and nothing is wrong
    found, _ = parted(views | {4: cpuset("3-4")}, read)
    assert found == [cpuset("0-3"), cpuset("8-11")]
    assert [problem.path for problem in read.problems] == ["/cpu4/mask", "/cpu5/mask"]
    assert read.problems[0].used == "no thing of these CPUs"


def test_damage_that_reads_as_a_set_stands_out_by_its_size() -> None:
    """A garbled mask swallows CPUs that nobody would ask: a size like no other makes all of the set's CPUs be asked."""
    views: dict[int, CpuSet | None] = {cpu: CpuSet((cpu,)) for cpu in range(8)}
    found, asked = parted(views | {0: cpuset("0,3-4")})
    assert found == [CpuSet((cpu,)) for cpu in range(1, 8)]
    assert set(asked) == set(range(8))


def test_sets_may_reach_beyond_the_cpus_asked() -> None:
    """With `within`, CPUs that are not asked themselves stay in the sets of those that are."""
    views: dict[int, CpuSet | None] = {0: cpuset("0-3"), 1: cpuset("0-3")}
    assert parted(views)[0] == [cpuset("0-1")]
    assert parted(views, within=cpuset("0-2"))[0] == [cpuset("0-2")]


def test_the_first_notation_that_can_be_read() -> None:
    """Masks before lists, newer names before older; a damaged one is replaced by the next, and said so."""
    tree: Contents = {"d/new": b"zz\n", "d/old": mask("0-1"), "d/new_list": line("0-7"), "d/old_list": line("0-7")}
    read = reader(tree)
    assert own_set(read, "d", BOTH, 0, KNOWN) == Shared(cpuset("0-1"), "d/old")
    assert [(problem.path, problem.used) for problem in read.problems] == [("/d/new", "/d/old")]
    read = reader({path: content for path, content in tree.items() if path.endswith("list")})
    assert own_set(read, "d", BOTH, 0, KNOWN) == Shared(cpuset("0-7"), "d/new_list")
    assert read.problems == []


def test_sets_that_cannot_be() -> None:
    """A set without its own CPU, or with one that does not exist, is damage."""
    for wrong in (mask("1-2"), b"00000000\n", b"ffffffff,00000001\n"):
        read = reader({"d/new": wrong, "d/old_list": line("0-3")})
        assert own_set(read, "d", BOTH, 0, KNOWN) == Shared(cpuset("0-3"), "d/old_list")
        assert [problem.used for problem in read.problems] == ["/d/old_list"]


def test_an_empty_set_may_mean_nobody_else() -> None:
    """Only where asked for."""
    read = reader({"d/new": b"00000000\n"})
    assert own_set(read, "d", BOTH, 3, KNOWN, empty_is_alone=True) == Shared(cpuset("3"), "d/new")
    assert own_set(read, "d", BOTH, 3, KNOWN) is None


def test_notations_of_a_directory() -> None:
    """Only the files that are there are tried; the first of them gives its name to what is missing."""
    assert BOTH.among(frozenset({"old", "new_list", "other"})) == Notations(("old",), ("new_list",))
    assert BOTH.among(frozenset()).first() == ""
    assert BOTH.first() == "new"


def test_messages_stay_short() -> None:
    """A set of thousands of CPUs does not fill a screen; what was used is noted once."""
    assert shown(cpuset("0-3")) == "0-3"
    assert len(shown(CpuSet(range(0, 8000, 2)))) < 80
    assert shown(EMPTY) == ""
    read = reader({"x": b""})
    read.problem("a", "bad")
    read.problem("b", "bad", "known")
    read.note_used(0, "other")
    assert [problem.used for problem in read.problems] == ["other", "known"]
