"""Runs the unit tests against changed functions: each change in a fork of a process that has imported the tests.

    python tools/mutant_forks.py REQUESTS WORKERS TESTS...

A separate pytest would spend seconds per mutant on imports. Here the body of the changed function replaces the imported
one, and only the tests that call the function run. Those that mirror its module come first, and within each group the
shortest ones. The file of requests is a JSON list of [path, operator of cosmic-ray, occurrence]; results are lines of
JSON, [index, outcome], in any order. There are two outcomes in addition to those of a mutant:

- uncertain     no test fails, but the function was called before the first test: its results are not recomputed
- unknown       code that runs at import is changed too, so there is no body to exchange
"""

# cosmic-ray has no types
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from functools import lru_cache
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Literal, NamedTuple

import pytest
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import FrameType

ForkOutcome = Literal["killed", "timeout", "survived", "uncertain", "unknown"]

_MAX_MEMORY = 6 << 30
"""Maximum bytes of address space: a mutant may allocate memory endlessly."""
_MIN_SECONDS, _TIMES_AS_LONG = 10.0, 20.0
"""A test counts as endless if it exceeds both this number of seconds and this multiple of its time without a change."""
_STATUSES: dict[ForkOutcome, int] = {
    "survived": 0,
    "killed": 1,
    "uncertain": 2,
    "unknown": 3,
    "timeout": -signal.SIGALRM,
}
"""Exit statuses of a fork; any other status means that the change ends the process, and so is noticed."""
PACKAGE = "zonewise_scheduler"
_CACHED = type(lru_cache(len))
"""The type that `cache` and `lru_cache` return."""
_SETTINGS = "_hypothesis_internal_use_settings"
"""The attribute in which Hypothesis stores the settings of a property."""
_WRAPPED = ("fget", "fset", "func", "__func__", "__wrapped__")
"""Attributes in which decorators store a function."""

_Function = tuple[str, str]
"""File and qualified name."""


class Coverage(NamedTuple):
    """The functions that the tests call."""

    tests: Mapping[_Function, Sequence[int]]
    """Indices of the tests that call each function."""
    seconds: Sequence[float]
    """Duration of each test."""


class ForkRuns:
    """A plugin of pytest that runs the collected tests against one change after another."""

    def __init__(self, requests: Sequence[tuple[str, str, int]], workers: int) -> None:
        self._requests = requests
        self._workers = workers
        self._results = os.fdopen(os.dup(1), "w")
        self._called_at_import: set[CodeType] = set()
        self._failed = False
        self._in_coverage = False

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Make properties stop at the first failure; the functions that imports have called are known by now."""
        from hypothesis import Phase, settings  # pytest must not import it before its plugins

        sys.settrace(None)
        for item in items:
            function = getattr(item, "obj", None)
            own = getattr(function, _SETTINGS, None)
            if isinstance(own, settings):
                phases = (Phase.explicit, Phase.generate)
                setattr(function, _SETTINGS, settings(own, phases=phases, report_multiple_bugs=False))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record a failure; without a change, also print it."""
        self._failed |= report.failed
        if report.failed and self._in_coverage:
            sys.stderr.write(f"{report.nodeid}\n{report.longreprtext}\n")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests once for each request."""
        coverage = self._coverage(session.items)
        running: dict[int, int] = {}
        for index in range(len(self._requests)):
            if len(running) == self._workers:
                self._collect(running)
            if (pid := os.fork()) == 0:
                _exit_with(lambda index=index: self._test(session.items, coverage, *self._requests[index]))
            running[pid] = index
        while running:
            self._collect(running)
        return True

    def trace_imports(self) -> None:
        """Record the functions that are called from now on, until the tests are collected."""
        sys.settrace(_tracer(self._called_at_import))

    # --- coverage

    def _coverage(self, items: Sequence[pytest.Item]) -> Coverage:
        """Run all tests once, in forks, so that their cached values do not stay in this process.

        Raises SystemExit if one fails.
        """
        with tempfile.TemporaryDirectory(prefix="coverage-") as folder:
            files = [Path(folder) / str(worker) for worker in range(self._workers)]
            for worker, file in enumerate(files):
                if os.fork() == 0:
                    indices = range(worker, len(items), self._workers)
                    _exit_with(lambda file=file, indices=indices: self._trace(items, indices, file))
            statuses = [os.waitstatus_to_exitcode(os.wait()[1]) for _ in files]
            if any(statuses):
                raise SystemExit("the tests fail without a mutant")
            entries = [entry for file in files for entry in json.loads(file.read_text())]
        seconds = [0.0] * len(items)
        calls: dict[_Function, list[int]] = {}
        for index, duration, functions in entries:
            seconds[index] = duration
            for file, name in functions:
                calls.setdefault((file, name), []).append(index)
        return Coverage(calls, seconds)

    def _trace(self, items: Sequence[pytest.Item], indices: Sequence[int], file: Path) -> ForkOutcome:
        self._in_coverage = True
        entries: list[tuple[int, float, list[_Function]]] = []
        for index in indices:
            called: set[CodeType] = set()
            tracer = _tracer(called)
            _clear_caches()
            threading.settrace(tracer)
            sys.settrace(tracer)
            begin = time.monotonic()
            self._run(items[index])
            duration = time.monotonic() - begin
            sys.settrace(None)
            entries.append((index, duration, sorted({(code.co_filename, _outermost(code)) for code in called})))
        file.write_text(json.dumps(entries))
        return "killed" if self._failed else "survived"

    # --- one change

    def _test(
        self, items: Sequence[pytest.Item], coverage: Coverage, path: str, operator: str, occurrence: int
    ) -> ForkOutcome:
        """Exchange the functions that a change affects, and run the tests that call them."""
        source = Path(path).read_text()
        changed = str(mutate_code(source, get_operator(operator)(), occurrence))
        original = compile(source, path, "exec", dont_inherit=True)
        bodies = changed_functions(original, compile(changed, path, "exec", dont_inherit=True))
        imported = _imported_module(path)
        if bodies is None or (imported is not None and not all(_exchange(imported, *body) for body in bodies.items())):
            return "unknown"
        tests = {index for name in bodies for index in coverage.tests.get((path, name), ())}
        resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY, _MAX_MEMORY))
        mirrored = f"test_{Path(path).stem}"
        order = sorted(
            (not items[index].path.stem.startswith(mirrored), coverage.seconds[index], index) for index in tests
        )
        for _, _, index in order:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, max(_MIN_SECONDS, _TIMES_AS_LONG * coverage.seconds[index]))
            self._run(items[index])
            if self._failed:
                return "killed"
        early = {(code.co_filename, _outermost(code)) for code in self._called_at_import}
        return "uncertain" if any((path, name) in early for name in bodies) else "survived"

    def _run(self, item: pytest.Item) -> None:
        item.ihook.pytest_runtest_protocol(item=item, nextitem=None)

    def _collect(self, running: dict[int, int]) -> None:
        """Wait for one fork and write its outcome."""
        pid, status = os.wait()
        code = os.waitstatus_to_exitcode(status)
        outcome = next((outcome for outcome, known in _STATUSES.items() if known == code), "killed")
        self._results.write(f"{json.dumps([running.pop(pid), outcome])}\n")
        self._results.flush()


def changed_functions(original: CodeType, changed: CodeType) -> dict[str, CodeType] | None:
    """Return the changed functions of a module by qualified name; None if code that runs at import changed as well."""
    if _import_code(original) != _import_code(changed):
        return None
    pairs = zip(_functions(original), _functions(changed), strict=True)
    bodies = [(name, after) for (name, before), (_, after) in pairs if before != after]
    names = Counter(name for name, _ in _functions(changed))
    return dict(bodies) if all(names[name] == 1 for name, _ in bodies) else None


def _functions(code: CodeType) -> Iterator[tuple[str, CodeType]]:
    """Yield the functions of a module or class, and those of its classes, by qualified name."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_flags & CO_OPTIMIZED:
                yield constant.co_qualname, constant
            else:
                yield from _functions(constant)


def _import_code(code: CodeType) -> list[object]:
    """Return what a module or class executes when it is created, for comparison; functions appear only by name."""
    constants: list[object] = []
    for constant in code.co_consts:
        if not isinstance(constant, CodeType):
            constants.append(repr(constant))
        elif constant.co_flags & CO_OPTIMIZED:
            constants.append("a lambda" if constant.co_name == "<lambda>" else constant.co_qualname)
        else:
            constants.append(_import_code(constant))
    return [code.co_code, code.co_names, constants]


def _imported_module(path: str) -> ModuleType | None:
    return next((module for module in list(sys.modules.values()) if getattr(module, "__file__", None) == path), None)


def _exchange(module: ModuleType, name: str, body: CodeType) -> bool:
    """Give an imported function another body; return False if the function is not found."""
    value: object = module
    for part in name.split("."):
        value = getattr(value, "__dict__", {}).get(part)
    functions = [candidate for candidate in _unwrapped(value) if candidate.__code__.co_qualname == name]
    for function in functions:
        if len(function.__code__.co_freevars) != len(body.co_freevars):
            return False
        function.__code__ = body
    return len(functions) == 1


def _unwrapped(value: object) -> Iterator[FunctionType]:
    """Yield the functions below decorators, and clear the decorators' caches."""
    if isinstance(value, FunctionType):
        yield value
    if (clear := getattr(value, "cache_clear", None)) is not None:
        clear()
    for attribute in _WRAPPED:
        if (inner := getattr(value, attribute, None)) is not None:
            yield from _unwrapped(inner)


def _tracer(called: set[CodeType]) -> Callable[[FrameType, str, object], None]:
    """Return a tracer that records the code of the package that is called."""
    package = f"{os.sep}{PACKAGE}{os.sep}"

    def trace(frame: FrameType, event: str, argument: object) -> None:  # noqa: ARG001 -- as sys.settrace calls it
        if package in frame.f_code.co_filename:
            called.add(frame.f_code)

    return trace


def _clear_caches() -> None:
    """Clear the caches of the package's functions, so that a test makes its calls regardless of earlier tests."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == PACKAGE:
            for value in vars(module).values():
                if isinstance(value, _CACHED):
                    value.cache_clear()


def _outermost(code: CodeType) -> str:
    """Return the name of the function of a module or class that contains the code."""
    return code.co_qualname.partition(".<locals>")[0]


def _exit_with(run: Callable[[], ForkOutcome]) -> None:
    """End a fork with its outcome, without the process's usual exit handlers."""
    outcome: ForkOutcome = "unknown"
    try:
        outcome = run()
    except BaseException:  # noqa: BLE001 -- also what ends a process: the fork must not go on as the run
        traceback.print_exc()
    os._exit(_STATUSES[outcome])


def main(requests: Path, workers: int, tests: Sequence[str]) -> int:
    """Read requests and write results; return 0, or pytest's status if the tests do not run."""
    plugin = ForkRuns(
        [(path, operator, number) for path, operator, number in json.loads(requests.read_text())], workers
    )
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    plugin.trace_imports()
    options = ["-q", "--import-mode=importlib", "-p", "no:cacheprovider", "-o", "addopts=", "-n", "0"]
    return pytest.main([*options, "-o", "timeout=0", "-m", "not long", *tests], plugins=[plugin])


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
