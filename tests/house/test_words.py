"""The project's vocabulary: no struck-off word in a public name or in prose, and no duplicate name.

The words are those of docs/concepts/glossary.md. Names from upstream code are exempt.
"""

from __future__ import annotations

import ast
import functools
import re
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.snapshots import PROJECT
from support.source_roots import SOURCES

if TYPE_CHECKING:
    from collections.abc import Iterator

_WORDS = """
    found made given told asked taken kept seen wanted here there
    foretell foretells foretold prophecy promise promises promised opinion opinions agreed compromise
    hindrance hindrances grade grades aside turn turns awake room yielded spot spots stay stays ground
    ahead timetable outlook entrance books refuse refuses refused refusal refusals answer answers answered
    ask asks asking tell tells say says nobody somebody whoever who whom why desk
"""
STRUCK_OFF = frozenset(_WORDS.split())
"""Words without meaning, and words that the glossary replaces."""
NO_NAMES = frozenset({"one", "other", "others", "of"})
"""Words that are not names by themselves."""
UPSTREAM_NAMES = {
    "NotFound": "k8s.io/apimachinery/pkg/apis/meta/v1/types.go StatusReasonNotFound",
    "not_found": "k8s.io/apimachinery/pkg/api/errors/errors.go NewNotFound",
    "NOT_FOUND": "nvml.h NVML_ERROR_NOT_FOUND",
    "LIBRARY_NOT_FOUND": "nvml.h NVML_ERROR_LIBRARY_NOT_FOUND",
    "FUNCTION_NOT_FOUND": "nvml.h NVML_ERROR_FUNCTION_NOT_FOUND",
    "books_per_drawer": "Linux arch/s390/kernel/topology.c: drawers hold books",
}
"""Public names that contain such a word because upstream's name does, with upstream's file."""
PROSE = re.compile(
    r"\b(foret(?:ell|ells|old)|promis(?:e|ed|es)|nobody|somebody|whoever|whom"
    r"|(?:his|its|whose) turn|gives? way|the study)\b",
    re.IGNORECASE,
)
"""Struck-off words and phrases, which no docstring, comment, message or page may contain."""
_EXTERNAL_NAME = re.compile(r"""(["'`])[\w./-]+\1""")
"""A quoted name: a JSON key, an annotation, a command or an option of older versions."""
THIS = Path(__file__)
DEPRECATED = ("promise", "foretold")
"""Words in options and keys of older versions, which tests of their deprecation contain."""
PAGES = [
    PROJECT / "README.md",
    PROJECT / "CONTRIBUTING.md",
    PROJECT / "SECURITY.md",
    *sorted((PROJECT / "docs").rglob("*.md")),
]


def _modules(root: Path) -> list[Path]:
    return [file for file in sorted(root.rglob("*.py")) if not file.name.endswith("_pb2.py")]


def _words(name: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+", name)]


@functools.cache
def _names_of(file: Path) -> tuple[list[tuple[str, int]], list[str]]:
    """Return the public names of a module with their lines, and all of its classes; parsing takes most of the time."""
    tree = ast.parse(file.read_text())
    return list(_public_names(tree)), [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def _public_names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield classes, functions, methods, attributes and constants without a leading underscore, with their lines."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.ClassDef():
                yield node.name, node.lineno
                yield from _public_names(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.name, node.lineno
                yield from _own_attributes(node)
            case ast.Name(ctx=ast.Store()):
                yield node.id, node.lineno
            case ast.Lambda():
                pass
            case ast.AST():
                yield from _public_names(node)


def _own_attributes(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[str, int]]:
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name):
            yield from [(node.attr, node.lineno)] if node.value.id == "self" else []


def _is_struck_off(name: str) -> bool:
    if name.startswith("_") or name in UPSTREAM_NAMES:
        return False
    return name in NO_NAMES or not STRUCK_OFF.isdisjoint(_words(name))


def _packages() -> list[str]:
    return [
        f"{name}/{child.name}"
        for name, root in SOURCES.items()
        for child in sorted(root.iterdir())
        if child.suffix == ".py" or (child.is_dir() and any(child.rglob("*.py")))
    ]


@pytest.mark.parametrize("package", _packages())
def test_public_names_use_the_words_of_the_field(package: str) -> None:
    root, _, child = package.partition("/")
    path = SOURCES[root] / child
    struck_off: list[str] = []
    for file in [path] if path.is_file() else _modules(path):
        relative = file.relative_to(PROJECT)
        module_name = file.parent.name if file.stem == "__init__" else file.stem
        struck_off += [f"{relative}: module {module_name}"] if _is_struck_off(module_name) else []
        names, _ = _names_of(file)
        struck_off += [f"{relative}:{line}: {name}" for name, line in names if _is_struck_off(name)]
    assert struck_off == []


@pytest.mark.parametrize("package", _packages())
def test_prose_uses_the_words_of_the_field(package: str) -> None:
    root, _, child = package.partition("/")
    path = SOURCES[root] / child
    files = [path] if path.is_file() else _modules(path)
    assert [line for file in files for line in _struck_off_prose(file)] == []


@pytest.mark.parametrize("folder", ["benchmarks", "manifests", "tests", "tools"])
def test_prose_beside_the_sources_uses_the_words_of_the_field(folder: str) -> None:
    files = [file for file in (PROJECT / folder).rglob("*") if file.suffix in {".py", ".yaml", ".sh"}]
    struck_off = [line for file in sorted(files) if file != THIS for line in _struck_off_prose(file)]
    assert [line for line in struck_off if not line.endswith(DEPRECATED)] == []


def test_pages_use_the_words_of_the_field() -> None:
    pages = [page for page in PAGES if page.name != "glossary.md" and not page.read_text().startswith("<!-- Generated")]
    assert [line for page in pages for line in _struck_off_prose(page)] == []


def _struck_off_prose(file: Path) -> list[str]:
    return [
        f"{file.relative_to(PROJECT)}:{number}: {match[0]}"
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if (match := PROSE.search(_EXTERNAL_NAME.sub("", line)))
    ]


@pytest.mark.parametrize("root", SOURCES)
def test_no_class_name_occurs_twice_in_a_source_root(root: str) -> None:
    files_by_name: dict[str, list[str]] = defaultdict(list)
    for file in _modules(SOURCES[root]):
        for name in _names_of(file)[1]:
            files_by_name[name].append(str(file.relative_to(PROJECT)))
    assert {name: files for name, files in files_by_name.items() if len(files) > 1} == {}


@pytest.mark.parametrize("root", SOURCES)
def test_no_module_name_occurs_twice_in_a_room(root: str) -> None:
    """A room is a package directly below a source root; `types.py` may exist once in each package."""
    files_by_name: dict[tuple[str, str], list[str]] = defaultdict(list)
    for file in _modules(SOURCES[root]):
        relative = file.relative_to(SOURCES[root])
        if len(relative.parts) > 1 and file.stem not in {"__init__", "__main__", "types"}:
            files_by_name[relative.parts[0], file.stem].append(str(relative))
    assert {name: files for name, files in files_by_name.items() if len(files) > 1} == {}
