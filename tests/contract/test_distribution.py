"""The distribution of tests among workers, with pytest-xdist's own scheduler and simulated workers."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from hypothesis import given
from hypothesis import strategies as st

from support.distribution import FileDistribution, unit_of

if TYPE_CHECKING:
    import pytest

WAITING = "tests/e2e/test_adopt.py"
COMPUTING = ("tests/unit/scheduler/tas/test_tree.py", "tests/unit/scheduler/tas/test_types.py", "tests/house/a.py")
SHARING = ("tests/contract/test_apiserver_jobs.py", "tests/contract/test_apiserver_watch.py")


class Options(NamedTuple):
    """The part of pytest's configuration that the scheduler reads."""

    option: Any
    workers: int

    def getvalue(self, name: str) -> list[str]:
        """Return the workers: `-n 2` means `--tx popen --tx popen`."""
        assert name == "tx"
        return ["popen"] * self.workers

    loadscopereorder = False


class Worker:
    """A worker that runs its tests in the order of arrival."""

    gateway = SimpleNamespace(id="gw0")

    def __init__(self) -> None:
        self.shutting_down = False
        self.waiting: list[int] = []

    def send_runtest_some(self, indexes: list[int]) -> None:
        assert not self.shutting_down
        self.waiting += indexes

    def shutdown(self) -> None:
        self.shutting_down = True


def start(tests: list[str], workers: int) -> tuple[FileDistribution, list[Worker]]:
    """Return a scheduler that has sent the first tests to its workers."""
    options = Options(Options, workers)
    scheduler = FileDistribution(cast("pytest.Config", options))
    nodes = [Worker() for _ in range(workers)]
    for node in nodes:
        scheduler.add_node(cast("Any", node))
        scheduler.add_node_collection(cast("Any", node), tests)
    scheduler.schedule()
    return scheduler, nodes


def distribute(tests: list[str], workers: int, data: st.DataObject) -> list[list[str]]:
    """Let workers run tests, one at a time in any order of the workers; return the tests of each."""
    scheduler, nodes = start(tests, workers)
    run: list[list[str]] = [[] for _ in nodes]
    while ready := [i for i, node in enumerate(nodes) if node.waiting]:
        i = data.draw(st.sampled_from(ready))
        index = nodes[i].waiting.pop(0)
        run[i].append(tests[index])
        scheduler.mark_test_complete(cast("Any", nodes[i]), index)
    assert scheduler.tests_finished
    return run


@given(
    counts=st.dictionaries(st.sampled_from([WAITING, *COMPUTING, *SHARING]), st.integers(1, 5), min_size=1),
    workers=st.integers(1, 4),
    data=st.data(),
)
def test_each_test_runs_once_and_each_file_in_one_worker(
    counts: dict[str, int], workers: int, data: st.DataObject
) -> None:
    tests = [f"{file}::test_{i}" for file, count in sorted(counts.items()) for i in range(count)]
    run = distribute(tests, workers, data)
    assert sorted(test for own in run for test in own) == sorted(tests)
    workers_of: dict[str, set[int]] = defaultdict(set)
    for i, own in enumerate(run):
        for test in own:
            workers_of[unit_of(test.partition("::")[0])].add(i)
    assert {len(numbers) for numbers in workers_of.values()} == {1}


@given(data=st.data())
def test_half_of_the_workers_begin_with_waiting_tests(data: st.DataObject) -> None:
    files = [*COMPUTING, WAITING]
    first, second = distribute([f"{file}::test_{i}" for file in files for i in range(5)], 2, data)
    assert [first[0], second[0]] == [f"{WAITING}::test_0", f"{COMPUTING[0]}::test_0"]


def test_a_test_with_which_a_worker_crashes_is_not_repeated() -> None:
    """The worker that replaces the crashed one gets the other tests of its file."""
    tests = [f"{COMPUTING[0]}::test_{i}" for i in range(3)]
    scheduler, [crashed] = start(tests, 1)
    scheduler.mark_test_complete(cast("Any", crashed), 0)
    assert scheduler.remove_node(cast("Any", crashed)) == tests[1]
    replacement = Worker()
    scheduler.add_node(cast("Any", replacement))
    scheduler.add_node_collection(cast("Any", replacement), tests)
    scheduler.schedule()
    assert replacement.waiting == [2]


def test_files_with_a_shared_server_are_one_unit() -> None:
    assert [unit_of(file) for file in SHARING] == ["real_server"] * 2
    assert unit_of(WAITING) == "real_cluster"
    assert unit_of(COMPUTING[0]) == COMPUTING[0]
