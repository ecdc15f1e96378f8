"""Which CPUs share something: from the files of each CPU, as few as possible, and with any contradictions."""

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


def partition_views(
    views: Mapping[int, CpuSet | None], read: Reader | None = None, within: CpuSet | None = None
) -> tuple[list[CpuSet], list[int]]:
    """Return the sets that CPUs with these views share, and the CPUs that were read, in order."""
    calls: list[int] = []

    def own(cpu: int) -> Shared | None:
        calls.append(cpu)
        view = views[cpu]
        return None if view is None else Shared(view, f"cpu{cpu}/mask")

    actual = partition(
        read or reader({"x": b""}), CpuSet(views), own, lambda cpu: f"cpu{cpu}/mask", "thing", within=within
    )
    return [shared.cpus for shared in actual], calls


@st.composite
def partitions(draw: st.DrawFn) -> list[CpuSet]:
    """Draw a partition of some CPUs."""
    owners = draw(st.lists(st.integers(0, 5), min_size=1, max_size=16))
    sets = [CpuSet(cpu for cpu, owner in enumerate(owners) if owner == owner_id) for owner_id in set(owners)]
    return sorted(sets, key=CpuSet.first)


def consistent_views(sets: list[CpuSet]) -> dict[int, CpuSet | None]:
    """Return the view of each CPU if nothing is damaged."""
    return {cpu: each for each in sets for cpu in each}


@given(partitions())
def test_consistent_sets_are_returned(sets: list[CpuSet]) -> None:
    """Any partition is returned unchanged, in ascending order and without a problem."""
    read = reader({"x": b""})
    assert partition_views(consistent_views(sets), read)[0] == sets
    assert read.problems == []


@given(st.integers(1, 8), st.integers(1, 2))
def test_a_single_file_is_read_for_each_set(sets: int, size: int) -> None:
    """If the sets have equal size, only the first CPU of each is read."""
    blocks = [CpuSet(range(first * size, (first + 1) * size)) for first in range(sets)]
    assert partition_views(consistent_views(blocks))[1] == [each.first() for each in blocks]


@given(partitions(), st.data())
def test_siblings_replace_lost_files(sets: list[CpuSet], data: st.DataObject) -> None:
    """A set is returned if the file of one of its CPUs has it; a CPU in no set is reported."""
    views = consistent_views(sets)
    mute = data.draw(st.sets(st.sampled_from(sorted(views)), max_size=4))
    read = reader({"x": b""})
    actual, _ = partition_views({cpu: None if cpu in mute else view for cpu, view in views.items()}, read)
    assert actual == [each for each in sets if not each <= CpuSet(mute)]
    reported = {problem.path: problem.used for problem in read.problems}
    lost = [cpu for cpu in views if not any(cpu in each for each in actual)]
    assert [reported.get(f"/cpu{cpu}/mask") for cpu in lost] == [f"the thing of CPU {cpu} is unknown" for cpu in lost]
    assert all(reported.values())


@given(st.dictionaries(st.sampled_from(CPUS), st.none() | st.frozensets(st.sampled_from(CPUS)), min_size=1))
def test_sets_are_disjoint_whatever_the_files_contain(noise: dict[int, frozenset[int] | None]) -> None:
    """For any contradictions, a returned set overlaps no other and is in a member's file."""
    views = {cpu: None if noise_cpus is None else CpuSet({cpu, *noise_cpus}) for cpu, noise_cpus in noise.items()}
    actual, _ = partition_views(views)
    assert sum(len(each) for each in actual) == len({cpu for each in actual for cpu in each})
    clipped = {view & CpuSet(views) for view in views.values() if view is not None}
    assert all(each in clipped for each in actual)


def test_a_set_that_a_cpu_contradicts_is_dropped() -> None:
    """A CPU of the second package claims CPUs of the first: neither its set nor the contradicted one is returned."""
    views: dict[int, CpuSet | None] = {cpu: cpuset("0-3") for cpu in range(4)}
    views |= {cpu: cpuset("4-7") for cpu in range(4, 8)} | {cpu: cpuset("8-11") for cpu in range(8, 12)}
    read = reader({"x": b""})
    actual, _ = partition_views(views | {5: cpuset("3-5")}, read)
    assert actual == [cpuset("0-3"), cpuset("4-7"), cpuset("8-11")]  # CPU 5 is never read, so nothing is wrong
    actual, _ = partition_views(views | {4: cpuset("3-4")}, read)
    assert actual == [cpuset("0-3"), cpuset("8-11")]
    assert [problem.path for problem in read.problems] == ["/cpu4/mask", "/cpu5/mask"]
    assert read.problems[0].used == "no thing of these CPUs"


def test_a_garbled_set_is_recognised_by_its_size() -> None:
    """A garbled mask includes CPUs that would then not be read.

    Its unusual size causes all CPUs of the set to be read.
    """
    views: dict[int, CpuSet | None] = {cpu: CpuSet((cpu,)) for cpu in range(8)}
    actual, calls = partition_views(views | {0: cpuset("0,3-4")})
    assert actual == [CpuSet((cpu,)) for cpu in range(1, 8)]
    assert set(calls) == set(range(8))


def test_sets_may_include_cpus_that_are_not_read() -> None:
    """With `within`, CPUs that are not read themselves remain in the sets of the CPUs that are."""
    views: dict[int, CpuSet | None] = {0: cpuset("0-3"), 1: cpuset("0-3")}
    assert partition_views(views)[0] == [cpuset("0-1")]
    assert partition_views(views, within=cpuset("0-2"))[0] == [cpuset("0-2")]


def test_the_first_notation_that_can_be_read() -> None:
    """Masks precede lists, and newer names precede older ones.

    The next one replaces a damaged one, which is reported.
    """
    tree: Contents = {"d/new": b"zz\n", "d/old": mask("0-1"), "d/new_list": line("0-7"), "d/old_list": line("0-7")}
    read = reader(tree)
    assert own_set(read, "d", BOTH, 0, KNOWN) == Shared(cpuset("0-1"), "d/old")
    assert [(problem.path, problem.used) for problem in read.problems] == [("/d/new", "/d/old")]
    read = reader({path: content for path, content in tree.items() if path.endswith("list")})
    assert own_set(read, "d", BOTH, 0, KNOWN) == Shared(cpuset("0-7"), "d/new_list")
    assert read.problems == []


def test_impossible_sets() -> None:
    """A set without its own CPU, or with a CPU that does not exist, is damage."""
    for wrong in (mask("1-2"), b"00000000\n", b"ffffffff,00000001\n"):
        read = reader({"d/new": wrong, "d/old_list": line("0-3")})
        assert own_set(read, "d", BOTH, 0, KNOWN) == Shared(cpuset("0-3"), "d/old_list")
        assert [problem.used for problem in read.problems] == ["/d/old_list"]


def test_an_empty_set_may_be_replaced() -> None:
    """An empty set is replaced only on request."""
    read = reader({"d/new": b"00000000\n"})
    assert own_set(read, "d", BOTH, 3, KNOWN, when_empty=cpuset("2-3")) == Shared(cpuset("2-3"), "d/new")
    assert own_set(read, "d", BOTH, 3, KNOWN) is None


def test_notations_of_a_directory() -> None:
    """Only existing files are tried; problems about missing files use the name of the first notation."""
    assert BOTH.among(frozenset({"old", "new_list", "other"})) == Notations(("old",), ("new_list",))
    assert BOTH.among(frozenset()).first() == ""
    assert BOTH.first() == "new"


def test_messages_are_short() -> None:
    """A set of thousands of CPUs does not fill the screen; the value used instead is noted once."""
    assert shown(cpuset("0-3")) == "0-3"
    assert len(shown(CpuSet(range(0, 8000, 2)))) < 80
    assert shown(EMPTY) == ""
    read = reader({"x": b""})
    read.problem("a", "bad")
    read.problem("b", "bad", "known")
    read.note_used(0, "other")
    assert [problem.used for problem in read.problems] == ["other", "known"]
