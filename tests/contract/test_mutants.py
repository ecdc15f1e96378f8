"""The mutation run: which changes are mutants, which tests it runs, and which reports it accepts."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from support.snapshots import PROJECT
from tools import mutants
from tools.mutants import (
    Mutant,
    MutantResult,
    accepts,
    changed_lines,
    find_changes,
    is_mutant,
    make_mutant,
    render_report,
    targets_of,
)

if TYPE_CHECKING:
    from pathlib import Path

MODULE = "scheduler/zonewise_scheduler/quota/queue/heads.py"
MUTANT = Mutant(MODULE, "core/AddNot", 0, 7, "if a:", "if not a:")


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project of one module and its test."""
    package = tmp_path / "scheduler/zonewise_scheduler/quota"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "sums.py").write_text(
        '"""Sums."""\nfrom __future__ import annotations\n\n\ndef plus(a: int | None, b: int) -> int | None:\n'
        "    return a + b if a is not None else None\n\n\ndef unused(a: int) -> int:\n    return a - 1\n"
    )
    tests = tmp_path / "tests/unit/scheduler/quota"
    tests.mkdir(parents=True)
    (tests / "test_sums.py").write_text(
        "from zonewise_scheduler.quota.sums import plus\n\n\ndef test_plus():\n    assert plus(2, 3) == 5\n"
        "    assert plus(None, 3) is None\n"
    )
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\naddopts = ["--import-mode=importlib"]\n')
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    monkeypatch.setattr(mutants, "PROJECT", tmp_path)
    monkeypatch.setattr(mutants, "NAMED", tmp_path / "named.toml")
    (tmp_path / "named.toml").write_text("")
    return tmp_path


def mutants_of(tree: Path, source: str) -> list[Mutant]:
    """Return the mutants of a module with this source."""
    module = "scheduler/zonewise_scheduler/quota/sums.py"
    (tree / module).write_text(source)
    return [mutant for change in find_changes(module) if (mutant := make_mutant(change)) is not None]


def test_annotations_are_no_mutants(tree: Path) -> None:
    """Changes of the four | in annotations are no mutants; changes of a sum and of a condition are."""
    changes = find_changes("scheduler/zonewise_scheduler/quota/sums.py")
    found = [mutant for change in changes if (mutant := make_mutant(change)) is not None]
    assert len(found) < len(changes)
    assert {mutant.line for mutant in found} == {6, 10}
    assert ("return a + b if a is not None else None", "return a - b if a is not None else None") in {
        (mutant.before, mutant.after) for mutant in found
    }


def test_markers_among_parameters_are_no_mutants(tree: Path) -> None:
    """`*` and `/` only forbid calls that pyright rejects anyway; a default is behaviour."""
    source = "def marked(a: int, *, b: int = 1, c: int) -> int:\n    return b\n"
    assert {mutant.after for mutant in mutants_of(tree, source)} == {
        f"def marked(a: int, *, b: int = {number}, c: int) -> int:" for number in (2, 0)
    }


def test_strict_lengths_are_no_mutants(tree: Path) -> None:
    """The lengths are equal in every passing test; the choice of the lists is behaviour."""
    source = "def one(a: list[int]) -> list[int]:\n    return list(zip(a, a[1:], strict=False))\n"
    assert {mutant.after for mutant in mutants_of(tree, source)} == {
        f"return list(zip(a, a[{number}:], strict=False))" for number in (" 2", " 0")
    }


def test_caches_are_no_mutants(tree: Path) -> None:
    """Neither the size nor the existence of a cache is behaviour; another decorator is."""
    source = "import functools\nfrom functools import cache, lru_cache\n\n\n{}\ndef one(): ...\n".format
    assert mutants_of(tree, source("@lru_cache(maxsize=1 << 12)")) == mutants_of(tree, source("@cache")) == []
    assert len(mutants_of(tree, source("@functools.wraps(len)"))) == 1


def test_members_of_protocols_are_no_mutants(tree: Path) -> None:
    """Members without a body never run; in any other class, a decorator is behaviour."""
    source = 'class One({}):\n    @property\n    def two(self) -> int:\n        """Two."""\n        ...\n'.format
    assert mutants_of(tree, source("Protocol")) == []
    assert [mutant.operator for mutant in mutants_of(tree, source("Base"))] == ["core/RemoveDecorator"]


@pytest.mark.parametrize(
    ("condition", "operators"),
    [
        ("a == b", {"!=", "<", "<=", ">", ">="}),
        ("a is None", {"is not"}),
        ("a is b", {"is not", "!=", "<", "<=", ">", ">="}),
        ("a < b", {"==", "!=", "<=", ">", ">="}),
        ("a == 'on'", {"!=", "<", ">"}),
        ("a != 'on'", {"==", "<=", ">="}),
        ("a & b == b", {"!=", "<", "<=", ">"}),
        ("a & b != b", {"==", ">=", ">", "<="}),
        ("a == inf", {"!=", "<", "<=", ">"}),
        ("a < inf", {"==", "<=", ">", ">="}),
        ("inf == a", {"!=", "<", "<=", ">", ">="}),
        ("a & b == c", {"!=", "<", "<=", ">", ">="}),
        ("a | b == b", {"!=", "<", "<=", ">", ">="}),
    ],
)
def test_equivalent_comparisons_are_no_mutants(tree: Path, condition: str, operators: set[str]) -> None:
    """An equal value may be the same object, and names have no order.

    No number exceeds infinity, and no masked bits exceed the mask.
    """
    source = f"def one(a: Mode) -> bool:\n    return {condition}\n"
    left, right = re.split(" (?:==|!=|<|is) ", condition)
    compared = re.compile(f"return {re.escape(left)} (.+) {right}")
    assert {found[1] for mutant in mutants_of(tree, source) if (found := compared.fullmatch(mutant.after))} == operators


@pytest.mark.long
def test_a_run_names_surviving_mutants(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each change of plus() is killed, and each of unused() survives; even with reasons, these are more than 3 %."""
    report = tree / "report.md"
    arguments = ["--areas", "quota", "--sample", "6", "--seed", "1", "--workers", "1", "--report", str(report)]
    assert mutants.main(arguments) == 1
    lines = [line for line in report.read_text().splitlines() if line.startswith("- ")]
    assert lines
    assert all("quota/sums.py:10: return a - 1  ->  " in line and "NOT NAMED" in line for line in lines)
    outcomes = [line for line in capsys.readouterr().out.splitlines() if " killed: " in line]
    assert outcomes
    assert all("quota/sums.py:6: " in line for line in outcomes)
    assert (tree / "scheduler/zonewise_scheduler/quota/sums.py").read_text().endswith("return a - 1\n")


def test_the_lines_that_have_changed_since_a_revision(tree: Path) -> None:
    git = ["git", "-C", str(tree), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "all"], check=True)
    assert changed_lines("HEAD") == {}
    module = "scheduler/zonewise_scheduler/quota/sums.py"
    source = (tree / module).read_text()
    (tree / module).write_text(source.replace("a - 1", "a - 2") + "\n\nONE = 1\n")
    assert changed_lines("HEAD") == {module: {10, 11, 12, 13}}


def test_an_unknown_revision_ends_the_run(tree: Path) -> None:
    with pytest.raises(SystemExit, match="--since none: "):
        changed_lines("none")


def test_a_test_that_finds_a_result_in_a_cache_calls_the_function_too(tree: Path) -> None:
    """Only the second test notices a change of plus()."""
    (tree / "scheduler/zonewise_scheduler/quota/sums.py").write_text(
        "from functools import cache\n\n\n@cache\ndef total(a: int, b: int) -> int:\n    return plus(a, b)\n\n\n"
        "def plus(a: int, b: int) -> int:\n    return a + b\n"
    )
    (tree / "tests/unit/scheduler/quota/test_sums.py").write_text(
        "from zonewise_scheduler.quota.sums import total\n\n\ndef test_one():\n    total(2, 3)\n\n\n"
        "def test_two():\n    assert total(2, 3) == 5\n"
    )
    report = tree / "report.md"
    arguments = ["--areas", "quota", "--sample", "2", "--workers", "1", "--report", str(report)]
    assert mutants.main(arguments) == 0


def test_tests_that_fail_without_a_mutant_end_the_run(tree: Path) -> None:
    (tree / "tests/unit/scheduler/quota/test_sums.py").write_text("def test_plus():\n    assert False\n")
    with pytest.raises(SystemExit, match="the tests fail without a mutant"):
        mutants.main(["--areas", "quota", "--sample", "1", "--workers", "1"])


def test_an_unknown_area() -> None:
    with pytest.raises(SystemExit, match="--areas quotas: there is no such package or module"):
        mutants.main(["--areas", "quotas"])


def test_mirrored_tests_come_before_those_of_the_area() -> None:
    assert targets_of(MODULE) == [["tests/unit/scheduler/quota/queue/test_heads.py"], ["tests/unit/scheduler/quota"]]
    unmirrored = MODULE.replace("heads", "no_such")
    assert targets_of(unmirrored) == [["tests/unit/scheduler/quota"]]


@pytest.mark.parametrize(
    ("survivors", "reason", "expected"), [(0, "", True), (3, "equal", True), (3, "", False), (4, "equal", False)]
)
def test_at_most_three_percent_survive_each_with_a_reason(survivors: int, reason: str, *, expected: bool) -> None:
    tested = [MutantResult(MUTANT, "survived", reason)] * survivors
    tested += [MutantResult(MUTANT, "killed")] * (100 - survivors)
    assert accepts(tested) == expected
    assert f"{survivors} survived ({survivors}.0 %)" in render_report(tested, 0)


def test_named_survivors_are_mutants_of_the_code() -> None:
    """A name is stale if its line is gone, or if the tool no longer makes that change."""
    for module, before, after in mutants.named_reasons():
        lines = (PROJECT / module).read_text().splitlines()
        numbers = [number for number, line in enumerate(lines) if line.strip() == before]
        assert numbers, f"{module}: {before}"
        changed = list(lines)
        changed[numbers[0]] = lines[numbers[0]].replace(before, after)
        assert is_mutant("\n".join(lines), "\n".join(changed)), f"{module}: {after}"
