"""Tolerant reading of the kubelet's checkpoints: a malformed entry is skipped and reported.

Only the checksum of dra_manager_state is compared. The others hash Go's representation of a struct that differs between
releases (pkg/kubelet/checkpointmanager/checksum). The kubelet replaces files as a whole (temporary file, fsync, rename:
pkg/kubelet/util/store/filestore.go), so no file is half written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, cast

import msgspec

from zonewise_common.k8s.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Iterator

UNKNOWN_POD = ""
"""Replaces a pod's UID, which old checkpoints do not contain."""

WHOLE_POD = ""
"""Replaces a container's name if a pod holds something as a whole."""

T = TypeVar("T")
_ZONE = re.compile(r"-?[0-9]{1,9}", re.ASCII)
_LONGEST_NAME = 200  # characters: a pod's UID, a container's name, a resource and an index make up about half of it
_MAX_ZONE = 1 << 16  # no kernel has a MAX_NUMNODES above 1024 (CONFIG_NODES_SHIFT)


class ParsedCheckpoint(NamedTuple, Generic[T]):
    """The value of a file, with its problems."""

    value: T | None
    """None if the file is unusable."""
    problems: tuple[str, ...] = ()
    """Sentences that name the file, the field and the value."""


class CheckpointReader:
    """The fields of one file, and the problems with them; null counts as absent, as in Go."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._problems: list[str] = []

    def parsed(self, value: T | None) -> ParsedCheckpoint[T]:
        """Return the value together with the problems so far."""
        return ParsedCheckpoint(value, tuple(self._problems))

    def problem(self, field: str, value: object, reason: str) -> None:
        """Record a malformed field on one line. The file may choose the names of fields."""
        name = field if field.isprintable() else repr(field)
        self._problems.append(f"{self._path}: {name[:_LONGEST_NAME]}: {repr(value)[:80]} {reason}")

    def document(self, content: bytes | str) -> Mapping[str, Any]:
        """Return the fields of a JSON object; none, and a problem, for any other content."""
        try:
            decoded: object = msgspec.json.decode(content)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            reason = f"is not JSON: {error}" if content else "is empty"
            self._problems.append(f"{self._path}: {reason}")
            return {}
        if isinstance(decoded, dict):
            return cast("dict[str, Any]", decoded)
        self._problems.append(f"{self._path}: {repr(decoded)[:80]} is not a JSON object")
        return {}

    def pod_entries(self, document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Yield what pods hold as a whole: podEntries, which kubelets of 1.37 write into the text `data`."""
        data = document.get("data")
        text = None if data is None else self.text("data", data)
        owner = document if text is None else self.document(text)
        yield from self.entries("podEntries", owner.get("podEntries"))

    def entries(self, field: str, value: object) -> Iterator[tuple[str, Any]]:
        """Yield the entries of an object."""
        if isinstance(value, Mapping):
            yield from cast("Mapping[str, Any]", value).items()
        elif value is not None:
            self.problem(field, value, "is not a JSON object")

    def items(self, field: str, value: object) -> Iterator[tuple[str, Any]]:
        """Yield the items of a list, each with the name of its field."""
        if isinstance(value, list):
            yield from ((f"{field}[{number}]", item) for number, item in enumerate(cast("list[Any]", value)))
        elif value is not None:
            self.problem(field, value, "is not a list")

    def text(self, field: str, value: object) -> str | None:
        """Return a non-empty text."""
        if isinstance(value, str) and value:
            return value
        self.problem(field, value, "is not a name")
        return None

    def texts(self, field: str, value: object) -> tuple[str, ...]:
        """Return the distinct texts of a list, sorted."""
        items = (self.text(item_field, item) for item_field, item in self.items(field, value))
        return tuple(sorted({text for text in items if text is not None}))

    def number(self, field: str, value: object) -> int | None:
        """Return a number that is not negative."""
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        self.problem(field, value, "is not a whole number")
        return None

    def zone(self, field: str, value: object, least: int = 0) -> int | None:
        """Return the id of a NUMA node, which is a text if it is the key of an object."""
        number = int(value) if isinstance(value, str) and _ZONE.fullmatch(value) else value
        if isinstance(number, int) and not isinstance(number, bool) and least <= number < _MAX_ZONE:
            return number
        self.problem(field, value, "is not a NUMA node")
        return None

    def zones(self, field: str, value: object) -> tuple[int, ...]:
        """Return the distinct NUMA nodes of a list, ascending."""
        numbers = (self.zone(item_field, item) for item_field, item in self.items(field, value))
        return tuple(sorted({zone for zone in numbers if zone is not None}))

    def cpus(self, field: str, value: object) -> CpuSet | None:
        """Return a CPU set."""
        try:
            if isinstance(value, str):
                return CpuSet.parse_list(value)
        except ValueError:
            pass
        self.problem(field, value, "is not a CPU list")
        return None
