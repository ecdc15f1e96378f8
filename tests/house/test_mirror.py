"""The path of a module determines the path of its tests: tests/unit mirrors the source roots."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.snapshots import PROJECT
from support.source_roots import SOURCES

if TYPE_CHECKING:
    from pathlib import Path

UNIT = PROJECT / "tests/unit"
TESTED = {**SOURCES, "benchmarks": PROJECT / "benchmarks"}
"""Directories below tests/unit, and the directory that each mirrors."""


def _modules(package: Path) -> set[str]:
    """Return the names of the modules and packages directly in a package."""
    return {child.stem for child in package.iterdir() if child.suffix == ".py" or (child / "__init__.py").exists()}


def test_each_unit_test_names_its_module() -> None:
    """A test is `tests/unit/<root>/<package>/test_<module>[_<aspect>].py`, and the module or package exists."""
    files = sorted(file.relative_to(UNIT) for file in UNIT.rglob("test_*.py"))
    assert len(files) > 500
    assert [f"{file}: {error}" for file in files if (error := _misplacement(file))] == []


def _misplacement(test: Path) -> str:
    root, *folders = test.parent.parts
    package = TESTED[root].joinpath(*folders)
    if not package.is_dir():
        return f"there is no package {package.relative_to(PROJECT)}"
    name = test.stem.removeprefix("test_")
    modules = _modules(package)
    is_named = any(name == module or name.startswith(f"{module}_") for module in modules)
    return "" if is_named else f"names none of {sorted(modules)}"


def test_each_package_with_code_has_unit_tests_at_its_path() -> None:
    """The tests are in the directory of the package, or next to it as `test_<package>*.py`."""
    untested: list[str] = []
    for root, source in SOURCES.items():
        for package in sorted(file.parent for file in source.rglob("__init__.py")):
            mirrored = UNIT / root / package.relative_to(source)
            found = [*mirrored.glob("test_*.py"), *mirrored.parent.glob(f"test_{package.name}*.py")]
            untested += [] if found or not _has_code(package) else [str(mirrored.relative_to(PROJECT))]
    assert untested == []


def _has_code(package: Path) -> bool:
    return any(not file.stem.startswith("_") and not file.stem.endswith("_pb2") for file in package.glob("*.py"))
