"""Parts of an object, field by field: what is invalid or not known is told and left out, and the rest is read.

What is told names the field by its path, and its value.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args

from zonewise_common.k8s.fields import FieldError, Json, abbreviated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

T = TypeVar("T")


class FieldReader:
    """An object within an object."""

    def __init__(self, obj: Mapping[str, Any], path: str, problems: list[str]) -> None:
        self.obj = obj
        self.path = path
        """"" for a whole object, else a path that ends in a dot."""
        self.problems = problems
        self._known: set[str] = set()

    def text(self, name: str, default: str = "") -> str:
        """Return a string."""
        value = self._value(name)
        if value is None or isinstance(value, str):
            return default if value is None else value
        self.report(name, "not a string")
        return default

    def choice(self, name: str, literal: object, default: T) -> T:
        """Return one of the values of a Literal."""
        value = self._value(name)
        if value is None or value in get_args(literal):
            return default if value is None else cast("T", value)
        self.report(name, f"not one of {', '.join(filter(None, get_args(literal)))}")
        return default

    def number(self, name: str, default: int | None = None) -> int | None:
        """Return a whole number."""
        value = self._value(name)
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return default if value is None else value
        self.report(name, "not a whole number")
        return default

    def count(self, name: str, default: int | None = None) -> int | None:
        """Return a whole number that is not negative."""
        value = self.number(name, default)
        if value is None or value >= 0:
            return value
        self.report(name, "negative")
        return default

    def flag(self, name: str, *, default: bool) -> bool:
        """Return true or false."""
        value = self._value(name)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        self.report(name, "neither true nor false")
        return default

    def quantity(self, name: str, read: Callable[[str | int], int]) -> int | None:
        """Return a quantity by `read`; None where there is none, or it is invalid or negative."""
        value = self._value(name)
        if value is None:
            return None
        try:
            found = read(value if isinstance(value, int) and not isinstance(value, bool) else str(value))
        except ValueError:
            self.report(name, "not a quantity")
            return None
        if found < 0:
            self.report(name, "negative")
            return None
        return found

    def time(self, name: str) -> float | None:
        """Return a time of RFC 3339, in seconds since 1970; None where there is none, or it is invalid."""
        value = self.text(name)
        if not value:
            return None
        try:
            found = datetime.fromisoformat(value)
        except ValueError:
            found = None
        if found is None or found.tzinfo is None:
            self.report(name, "not a time")
            return None
        return found.timestamp()

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of strings."""
        sound = (one for place, one in self._items(name) if self._is(one, str, f"{name}[{place}]", "a string"))
        return tuple(map(str, sound))

    def pairs(self, name: str) -> dict[str, str]:
        """Return strings by key."""
        found = self._object(name)
        return {key: one for key, one in found.items() if self._is(one, str, f"{name}.{key}", "a string")}

    def amounts(self, name: str, read: Callable[[str, str | int], int]) -> dict[str, int]:
        """Return quantities by resource, by `read`."""
        part = FieldReader(self._object(name), f"{self.path}{name}.", self.problems)
        found = {key: part.quantity(key, lambda value, key=key: read(key, value)) for key in part.obj}
        return {key: one for key, one in found.items() if one is not None}

    def has(self, name: str) -> bool:
        """Tell whether a field is there."""
        return self._value(name) is not None

    def child(self, name: str) -> FieldReader:
        """Return an object within; an empty one where it is absent."""
        return FieldReader(self._object(name), f"{self.path}{name}.", self.problems)

    def children(self, name: str) -> Iterator[FieldReader]:
        """Yield the objects of a list."""
        for place, one in self._items(name):
            if self._is(one, dict, f"{name}[{place}]", "an object"):
                yield FieldReader(cast("Json", one), f"{self.path}{name}[{place}].", self.problems)

    def read_whole(self, read: Callable[[Json], T], default: T) -> T:
        """Return what is read of the whole part by what raises FieldError."""
        try:
            return read(dict(self.obj))
        except FieldError as error:
            self.problems.append(f"{self.path}{error}")
            return default

    def ignore(self, *names: str) -> None:
        """Take note of fields that are known, and are not for quotas."""
        self._known.update(names)

    def report_unknown(self) -> None:
        """Tell the fields that are not known."""
        self.problems += [f"{self.path}{name}: not a known field" for name in self.obj if name not in self._known]

    def report(self, name: str, problem: str) -> None:
        """Tell what is wrong with a field."""
        self.problems.append(f"{self.path}{name}: {problem}: {abbreviated(self.obj.get(name))}")

    def _value(self, name: str) -> object:
        self._known.add(name)
        return self.obj.get(name)

    def _object(self, name: str) -> Json:
        value = self._value(name)
        return cast("Json", value) if value is not None and self._is(value, dict, name, "an object") else {}

    def _items(self, name: str) -> list[tuple[int, object]]:
        value = self._value(name)
        if value is None or not self._is(value, list, name, "a list"):
            return []
        return list(enumerate(cast("list[object]", value)))

    def _is(self, value: object, kind: type, name: str, what: str) -> bool:
        if isinstance(value, kind):
            return True
        self.problems.append(f"{self.path}{name}: not {what}: {abbreviated(value)}")
        return False


def open_object(obj: Mapping[str, Any], problems: list[str]) -> tuple[str, str, FieldReader]:
    """Return the namespace, the name and the spec of an object."""
    whole = FieldReader(obj, "", problems)
    whole.ignore("apiVersion", "kind", "status")
    metadata, spec = whole.child("metadata"), whole.child("spec")
    whole.report_unknown()
    name = metadata.text("name")
    if not name:
        metadata.report("name", "not a name")
    return metadata.text("namespace"), name, spec
