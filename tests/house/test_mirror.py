"""The path of a module determines the path of its tests: tests/unit mirrors the source roots."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.snapshots import PROJECT
from support.source_roots import SOURCES

UNIT = PROJECT / "tests/unit"
TESTED = {**SOURCES, "benchmarks": PROJECT / "benchmarks"}
"""Directories below tests/unit, and the directory that each mirrors."""


def _modules(package: Path) -> set[str]:
    """Return the names of the modules and packages directly in a package."""
    return {child.stem for child in package.iterdir() if child.suffix == ".py" or (child / "__init__.py").exists()}


@pytest.mark.parametrize("test", sorted(str(file.relative_to(UNIT)) for file in UNIT.rglob("test_*.py")))
def test_each_unit_test_names_its_module(test: str) -> None:
    """A test is `tests/unit/<root>/<package>/test_<module>[_<aspect>].py`, and the module or package exists."""
    root, *folders = Path(test).parent.parts
    package = TESTED[root].joinpath(*folders)
    assert package.is_dir(), f"{test}: there is no package {package.relative_to(PROJECT)}"
    name = Path(test).stem.removeprefix("test_")
    modules = _modules(package)
    assert any(name == module or name.startswith(f"{module}_") for module in modules), (
        f"{test} names none of {sorted(modules)}"
    )


def _packages() -> list[str]:
    files = [file for root in SOURCES.values() for file in root.rglob("__init__.py")]
    return sorted(str(file.parent.relative_to(PROJECT)) for file in files)


@pytest.mark.parametrize("package", _packages())
def test_each_package_with_code_has_unit_tests_at_its_path(package: str) -> None:
    """The tests are in the directory of the package, or next to it as `test_<package>*.py`."""
    path = PROJECT / package
    modules = [file for file in path.glob("*.py") if not file.stem.startswith("_") and not file.stem.endswith("_pb2")]
    if not modules:
        return
    root = next(name for name, source in SOURCES.items() if path.is_relative_to(source))
    mirrored = UNIT / root / path.relative_to(SOURCES[root])
    found = [*mirrored.glob("test_*.py"), *mirrored.parent.glob(f"test_{path.name}*.py")]
    assert found, f"no test in {mirrored.relative_to(PROJECT)}"
