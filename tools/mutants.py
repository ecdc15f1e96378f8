"""Mutation testing: changes one operator, number or condition at a time, and lists changes that no unit test notices.

    make test-mutants                       all mutants of admission, backfill and quota: hours
    make test-mutants SAMPLE=60 SEED=3      sixty of them, drawn by a seed
    make test-mutants AREAS=quota           of one package
    make test-mutants SINCE=v0.1.0          of the lines that have changed since a revision

The operators are those of cosmic-ray. A changed function runs against the unit tests of its area that call it
(mutant_forks.py). Any other mutant runs in a copy of the tree, against the unit tests that mirror its module:
tests/unit/scheduler/quota/queue/test_heads*.py for quota/queue/heads.py. If these pass, the unit tests of its area run
too. Tests that use data outside the project do not count: the copy does not contain the data. Changes that affect only
annotations are not mutants. tests/mutants.toml names the survivors that change no behaviour, with the reason.

The report lists every survivor with its change. The exit status is 0 if at most 3 % survive and each is named,
otherwise 1.
"""

# cosmic-ray has no types
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import lru_cache, partial
from itertools import groupby, islice
from multiprocessing import get_context
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Literal, NamedTuple

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tools.mutant_forks import ForkOutcome

PROJECT = Path(__file__).resolve().parent.parent
PACKAGE = Path("scheduler/zonewise_scheduler")
UNIT_TESTS = Path("tests/unit/scheduler")
AREAS = ("admission", "backfill", "quota")
NAMED = PROJECT / "tests/mutants.toml"
MAX_SURVIVING = 0.03
TIMEOUT = 300.0
"""Seconds for one test run: a mutant may never end."""
_CHUNK = 64
"""Number of changes that are made at a time: a sample needs few."""
_IDENTITY = re.compile("_(?!Is)[A-Za-z]+_Is(Not)?$")
"""Operators that replace equality by identity: `==` and `!=` are equivalent to them."""
_HUNK = re.compile(r"@@ -\S+ \+(?P<first>\d+)(?:,(?P<count>\d+))? @@")
_PASSED, _NO_TESTS = 0, 5
"""Exit statuses of pytest."""

Outcome = Literal["killed", "timeout", "survived"]


class Change(NamedTuple):
    """One position of one operator of cosmic-ray."""

    module: str
    """Path relative to the project."""
    operator: str
    occurrence: int


class Mutant(NamedTuple):
    """A change that affects a module's behaviour."""

    module: str
    operator: str
    occurrence: int
    line: int
    before: str
    after: str
    """The changed lines, stripped."""

    def __str__(self) -> str:
        return f"{self.module}:{self.line}: {self.before}  ->  {self.after}"


class MutantResult(NamedTuple):
    """A mutant with its outcome."""

    mutant: Mutant
    outcome: Outcome
    reason: str = ""
    """Why a survivor changes no behaviour, from tests/mutants.toml."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the mutants, and write the report."""
    options = _parse(arguments)
    modules = [module for area in options.areas for module in _modules(area)]
    lines = changed_lines(options.since) if options.since else None
    changes = [change for module in modules if lines is None or module in lines for change in find_changes(module)]
    random.Random(options.seed).shuffle(changes)  # noqa: S311 -- a sample that a seed repeats
    drawn = _make_mutants(changes, options.workers)
    if lines is not None:
        drawn = (mutant for mutant in drawn if mutant.line in lines[mutant.module])
    sample = sorted(islice(drawn, options.sample or None))
    print(f"{len(sample)} mutants of {', '.join(options.areas)}, seed {options.seed}", flush=True)
    tested = _test_all(sample, options.workers)
    report = render_report(tested, options.seed)
    options.report.write_text(report)
    print(report)
    return 0 if accepts(tested) else 1


def changed_lines(since: str) -> dict[str, set[int]]:
    """Return the numbers of the lines that differ from a revision, by module. Raises SystemExit if it is unknown."""
    command = ["git", "diff", "--unified=0", "--no-ext-diff", "--relative", since, "--", str(PACKAGE)]
    diff = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    if diff.returncode:
        raise SystemExit(f"--since {since}: {diff.stderr.strip()}")
    lines: dict[str, set[int]] = {}
    numbers: set[int] = set()
    for line in diff.stdout.splitlines():
        if line.startswith("+++ b/"):
            numbers = lines.setdefault(line.removeprefix("+++ b/"), set())
        elif hunk := _HUNK.match(line):
            first, count = int(hunk["first"]), int(hunk["count"] or 1)
            numbers.update(range(first, first + count))
    return lines


def find_changes(module: str) -> list[Change]:
    """Return all changes that the operators offer for a module, including those of annotations."""
    nodes = list(ast_nodes(get_ast((PROJECT / module).read_text())))
    changes: list[Change] = []
    for name in operator_names():
        operator_class = get_operator(name)
        if operator_class.arguments() or _IDENTITY.search(name):  # the caller lists no names as arguments
            continue
        operator = operator_class()
        positions = sum(1 for node in nodes for _ in operator.mutation_positions(node))
        changes += [Change(module, name, occurrence) for occurrence in range(positions)]
    return changes


def _make_mutants(changes: Sequence[Change], workers: int) -> Iterator[Mutant]:
    """Yield the mutants of changes, in order."""
    with ProcessPoolExecutor(workers, get_context("fork")) as pool:
        for start in range(0, len(changes), _CHUNK):
            yield from filter(None, pool.map(make_mutant, changes[start : start + _CHUNK], chunksize=8))


def make_mutant(change: Change) -> Mutant | None:
    """Return the mutant of a change; None if it changes only annotations or is not valid Python (`x is "text"`)."""
    source = (PROJECT / change.module).read_text()
    changed = _changed(source, change.operator, change.occurrence)
    return Mutant(*change, *_difference(source, changed)) if is_mutant(source, changed) else None


def is_mutant(source: str, changed: str) -> bool:
    """Return whether a changed module is valid Python and may behave differently."""
    return _behaviour(changed) not in ("", _behaviour(source))


def targets_of(module: str) -> list[list[str]]:
    """Return the tests of a module in the order in which they run: those that mirror it, then those of its area."""
    path = Path(module).relative_to(PACKAGE)
    mirrored = sorted((PROJECT / UNIT_TESTS / path.parent).glob(f"test_{path.stem}*.py"))
    area = [str(UNIT_TESTS / path.parts[0])]
    return [[str(test.relative_to(PROJECT)) for test in mirrored], area] if mirrored else [area]


def accepts(tested: Sequence[MutantResult]) -> bool:
    """Return whether at most 3 % survive, each with a reason."""
    survivors = [entry for entry in tested if entry.outcome == "survived"]
    return len(survivors) <= MAX_SURVIVING * len(tested) and all(entry.reason for entry in survivors)


def render_report(tested: Sequence[MutantResult], seed: int) -> str:
    """Return the report as Markdown."""
    survivors = [entry for entry in tested if entry.outcome == "survived"]
    counts = {outcome: sum(entry.outcome == outcome for entry in tested) for outcome in ("killed", "timeout")}
    share = f"{100 * len(survivors) / max(len(tested), 1):.1f} %"
    head = f"{len(tested)} mutants (seed {seed}): {counts['killed']} killed, {counts['timeout']} never ended"
    entries = [
        f"- `{entry.mutant}` ({entry.mutant.operator}): {entry.reason or 'NOT NAMED: write a test'}"
        for entry in survivors
    ]
    return "\n".join(["# Mutants", "", f"{head}, {len(survivors)} survived ({share}).", "", *entries, ""])


# --- mutants


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Run unit tests against mutants.")
    parser.add_argument("--areas", type=lambda text: text.split(","), default=list(AREAS))
    parser.add_argument("--sample", type=int, default=0, help="number of mutants to try; 0 for all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--since",
        metavar="REVISION",
        help="try only lines that changed since this revision, including uncommitted ones",
    )
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--report", type=Path, default=PROJECT / "mutants.md")
    return parser.parse_args(arguments)


def _modules(area: str) -> list[str]:
    """Return the modules at a path below the package: an area, one of its packages, or one module."""
    path = PROJECT / PACKAGE / area
    files = [path] if path.is_file() else sorted(path.rglob("*.py"))
    if not files:
        raise SystemExit(f"--areas {area}: there is no such package or module in {PACKAGE}")
    return [str(file.relative_to(PROJECT)) for file in files if file.name != "__init__.py"]


def _changed(source: str, operator: str, occurrence: int) -> str:
    """Return the source with one change; the unchanged source if the operator changes nothing."""
    changed: str | None = mutate_code(source, get_operator(operator)(), occurrence)
    return source if changed is None else changed


class _BehaviourOnly(ast.NodeTransformer):
    """Removes code without effect at run time: annotations, docstrings, imports for the type checker.

    It also removes members of protocols without a body, which no code runs, and caches of functions, which only save
    time. It removes syntax that only forbids calls: `*` and `/` among parameters, and `strict` of zip. No test makes a
    call that pyright rejects. Four pairs of comparisons are equivalent:

    - `is` and `==`, since Python does not guarantee which equal values are one object
    - `==` and `>=` of a text, since names have no order
    - `==` and `>=` of `a & b` and b, since the former is never more
    - `==` and `>=` of a number and `inf`, for the same reason
    """

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        return ast.AnnAssign(node.target, ast.Constant(None), node.value, node.simple)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.arg(node.arg)

    def visit_arguments(self, node: ast.arguments) -> ast.AST:
        node.args = [*node.posonlyargs, *node.args, *node.kwonlyargs]
        node.defaults = [*node.defaults, *(default for default in node.kw_defaults if default is not None)]
        node.posonlyargs, node.kwonlyargs, node.kw_defaults = [], [], []
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        node.decorator_list = [decorator for decorator in node.decorator_list if not _is_cache(decorator)]
        return self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        if any(isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases):
            node.body = [ast.Pass() if _is_without_body(member) else member for member in node.body]
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id == "zip":
            node.keywords = [keyword for keyword in node.keywords if keyword.arg != "strict"]
        return self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        synonyms: dict[type[ast.cmpop], ast.cmpop] = {ast.Is: ast.Eq(), ast.IsNot: ast.NotEq()}
        if any(map(_is_text, (node.left, *node.comparators))):
            synonyms |= {ast.GtE: ast.Eq(), ast.LtE: ast.Eq(), ast.Lt: ast.NotEq(), ast.Gt: ast.NotEq()}
        elif _is_test_of_bits(node) or _is_test_of_infinity(node):
            synonyms |= {ast.GtE: ast.Eq(), ast.Lt: ast.NotEq()}
        node.ops = [synonyms.get(type(operator), operator) for operator in node.ops]
        return self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST:
        names = {part.id for part in ast.walk(node.test) if isinstance(part, ast.Name)}
        return ast.Pass() if "TYPE_CHECKING" in names else self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        return ast.Pass() if isinstance(node.value, ast.Constant) else self.generic_visit(node)


def _is_cache(decorator: ast.expr) -> bool:
    name = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(name, ast.Name) and name.id in ("cache", "lru_cache")


def _is_without_body(member: ast.stmt) -> bool:
    """Return whether it is a function of only a docstring and `...`."""
    return isinstance(member, ast.FunctionDef) and all(
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant) for statement in member.body
    )


def _is_text(operand: ast.expr) -> bool:
    return isinstance(operand, ast.Constant) and isinstance(operand.value, str)


def _is_test_of_bits(node: ast.Compare) -> bool:
    """Return whether it compares `a & b` with b."""
    left = node.left
    return (
        isinstance(left, ast.BinOp)
        and isinstance(left.op, ast.BitAnd)
        and [ast.dump(left.right)] == list(map(ast.dump, node.comparators))
    )


def _is_test_of_infinity(node: ast.Compare) -> bool:
    """Return whether it compares one value with `inf`."""
    return list(map(ast.dump, node.comparators)) == [ast.dump(ast.Name("inf", ast.Load()))]


@lru_cache(maxsize=64)
def _behaviour(source: str) -> str:
    """Return a text that represents a module's behaviour; "" if it does not compile without warnings."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", SyntaxWarning)
            compile(source, "", "exec", dont_inherit=True)
            return ast.dump(_BehaviourOnly().visit(ast.parse(source)))
    except SyntaxError:
        return ""


def _difference(source: str, changed: str) -> tuple[int, str, str]:
    """Return the number of the first line that differs, counted from 1, and both versions of the line."""
    before, after = source.splitlines(), changed.splitlines()
    index = next(
        (row for row, (old, new) in enumerate(zip(before, after, strict=False)) if old != new),
        min(len(before), len(after)) - 1,
    )
    return index + 1, before[index].strip(), after[index].strip() if index < len(after) else ""


# --- tests


def _test_all(mutants: Sequence[Mutant], workers: int) -> list[MutantResult]:
    """Test mutants: functions in forks, the rest in copies. Raises SystemExit if the tests fail without a mutant."""
    outcomes: dict[Mutant, Outcome] = {}

    def record(mutant: Mutant, outcome: Outcome) -> None:
        outcomes[mutant] = outcome
        print(f"{len(outcomes)}/{len(mutants)} {outcome}: {mutant}", flush=True)

    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        trees = [_copy_tree(Path(folder).resolve() / str(number)) for number in range(workers)]
        for mutant, outcome in _test_in_forks(trees[0], mutants, workers):
            if outcome in ("killed", "timeout", "survived"):
                record(mutant, outcome)
        rest = [mutant for mutant in mutants if mutant not in outcomes]
        copies: SimpleQueue[Path] = SimpleQueue()
        for tree in trees:
            copies.put(tree)
        _check_unchanged(copies, rest)
        with ThreadPoolExecutor(workers) as pool:
            for mutant, outcome in zip(rest, pool.map(partial(_test_in, copies), rest), strict=True):
                record(mutant, outcome)
    reasons = named_reasons()
    return [
        MutantResult(
            mutant,
            outcome,
            reasons.get((mutant.module, mutant.before, mutant.after), "") if outcome == "survived" else "",
        )
        for mutant, outcome in sorted(outcomes.items())
    ]


def _test_in_forks(tree: Path, mutants: Iterable[Mutant], workers: int) -> Iterator[tuple[Mutant, ForkOutcome]]:
    """Yield the outcomes of mutant_forks.py in a copy of the tree, area by area."""
    for tests, group in groupby(sorted(mutants), lambda mutant: targets_of(mutant.module)[-1]):
        members = list(group)
        requests = tree.with_suffix(".json")
        requests.write_text(
            json.dumps([(str(tree / mutant.module), mutant.operator, mutant.occurrence) for mutant in members])
        )
        command = [sys.executable, str(Path(__file__).with_name("mutant_forks.py"))]
        with subprocess.Popen(
            [*command, str(requests), str(workers), *tests], cwd=tree, env=_environment(tree), text=True,
            stdout=subprocess.PIPE,
        ) as process:  # fmt: skip
            for line in process.stdout or ():
                index, outcome = json.loads(line)
                yield members[index], outcome
        if process.returncode:
            raise SystemExit(f"the tests fail without a mutant: pytest {' '.join(tests)}")


def _copy_tree(folder: Path) -> Path:
    """Copy the files that git tracks or would add."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=PROJECT, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    for name in listed.stdout.splitlines():
        source = PROJECT / name
        if source.is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, folder / name)
    return folder


def _check_unchanged(copies: SimpleQueue[Path], mutants: Iterable[Mutant]) -> None:
    """Raise SystemExit if the mirrored tests fail on the unchanged tree: no mutant could then survive."""
    tests = sorted({test for mutant in mutants for test in targets_of(mutant.module)[0]})
    if not tests:
        return
    folder = copies.get()
    status = _run_tests(folder, tests, timeout=None)
    copies.put(folder)
    if status != _PASSED:
        raise SystemExit(f"the tests fail without a mutant: pytest {' '.join(tests)}")


def _test_in(copies: SimpleQueue[Path], mutant: Mutant) -> Outcome:
    folder = copies.get()
    path = folder / mutant.module
    source = path.read_text()
    try:
        path.write_text(_changed(source, mutant.operator, mutant.occurrence))
        for tests in targets_of(mutant.module):
            status = _run_tests(folder, tests, TIMEOUT)
            if status is None:
                return "timeout"
            if status not in (_PASSED, _NO_TESTS):
                return "killed"
        return "survived"
    finally:
        path.write_text(source)
        copies.put(folder)


def _run_tests(folder: Path, tests: Sequence[str], timeout: float | None) -> int | None:
    """Return pytest's status in a copy; None if it did not end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", *tests], cwd=folder,
        env=_environment(folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        return process.wait(timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return None


def _environment(folder: Path) -> dict[str, str]:
    """Return environment variables with which the sources of a copy take precedence over installed ones.

    Properties are tested on more examples than by default.
    """
    roots = [str(folder / name) for name in ("scheduler", "common", "agent", "sandbox")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(roots),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HYPOTHESIS_PROFILE": "mutants",
    }


def named_reasons() -> dict[tuple[str, str, str], str]:
    """Return the reasons of named survivors by module and change."""
    named = tomllib.loads(NAMED.read_text()).get("mutant", [])
    return {(entry["module"], entry["before"], entry["after"]): entry["reason"] for entry in named}


if __name__ == "__main__":
    sys.exit(main())
