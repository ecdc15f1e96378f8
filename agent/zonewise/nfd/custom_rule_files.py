"""The directory of custom rules (`custom.d`), with one level of subdirectories, as ConfigMaps are mounted.

As in source/custom/directory_features.go, each file is a list of rules, and files are read in the order of their names.
A file whose name begins with a dot is ignored. A damaged file does not affect the others. A file with an unknown field
is damaged (UnmarshalStrict): a misspelled condition would otherwise be lost, and its rule would match every node.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any, cast

from zonewise_common.k8s.yaml_document import load_first_document

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise.machine.files import Files

CUSTOM_DIRECTORY = "etc/kubernetes/node-feature-discovery/custom.d"
"""Path below the root of the machine."""

_Content = tuple[tuple[Any, ...], str]
"""The rules of a file, and a description of its damage; empty if there is none."""


class CustomRuleFiles:
    """Reads the rules; a file is parsed only after a change."""

    def __init__(self, files: Files, directory: str) -> None:
        """Set the directory of the files, which need not exist."""
        self._files = files
        self._directory = directory
        self._parsed: dict[str, tuple[bytes, _Content]] = {}

    def read(self) -> tuple[tuple[Any, ...], tuple[str, ...]]:
        """Return the rules in the files, and the problems with files; never raises."""
        rules: list[Any] = []
        problems: list[str] = []
        parsed: dict[str, tuple[bytes, _Content]] = {}
        for path, content in self._contents(self._directory, depth=1):
            if isinstance(content, OSError):
                problems.append(f"{path}: cannot be read: {content.strerror}")
                continue
            before = self._parsed.get(path)
            parsed[path] = before if before is not None and before[0] == content else (content, _parse(content))
            of_file, problem = parsed[path][1]
            rules += of_file
            problems += [f"{path}: {problem}; the file is ignored"] if problem else []
        self._parsed = parsed
        return tuple(rules), tuple(problems)

    def _contents(self, directory: str, depth: int) -> Iterator[tuple[str, bytes | OSError]]:
        try:
            names = sorted(name for name in self._files.names(directory) if not name.startswith("."))
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                yield directory, error
            return
        for name in names:
            path = f"{directory}/{name}"
            try:
                yield path, self._files.read(path)
            except OSError as error:
                if error.errno != errno.EISDIR:
                    yield path, error
                elif depth:
                    yield from self._contents(path, depth - 1)


def _parse(content: bytes) -> _Content:
    try:
        document = load_first_document(content)
    except ValueError as error:
        return (), f"is {error}"
    if document is None:
        return (), ""
    if not isinstance(document, list):
        return (), "is not a list of rules"
    from zonewise.nfd.custom_rules import unknown_fields  # imported only if there are such rules

    rules = tuple(cast("list[Any]", document))
    unknown = next(unknown_fields(rules), None)
    return (rules, "") if unknown is None else ((), f"contains the unknown field {unknown}")
