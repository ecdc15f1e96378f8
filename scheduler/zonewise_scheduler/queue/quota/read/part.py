"""Parts of an object, field by field: what is invalid or not known is told and left out, and the rest is read.

What is told names the field by its path, and its value.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args

from zonewise_scheduler.fit.model.fields import FieldError, Json, short

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

T = TypeVar("T")


class Part:
    """An object within an object."""

    def __init__(self, given: Mapping[str, Any], at: str, problems: list[str]) -> None:
        self.given = given
        self.at = at
        """"" for a whole object, else a path that ends in a dot."""
        self.problems = problems
        self._known: set[str] = set()

    def text(self, name: str, default: str = "") -> str:
        """Return a string."""
        value = self._value(name)
        if value is None or isinstance(value, str):
            return default if value is None else value
        self.wrong(name, "not a string")
        return default

    def one_of(self, name: str, kinds: object, default: T) -> T:
        """Return one of the values of a Literal."""
        value = self._value(name)
        if value is None or value in get_args(kinds):
            return default if value is None else cast("T", value)
        self.wrong(name, f"not one of {', '.join(filter(None, get_args(kinds)))}")
        return default

    def number(self, name: str, default: int | None = None) -> int | None:
        """Return a whole number."""
        value = self._value(name)
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return default if value is None else value
        self.wrong(name, "not a whole number")
        return default

    def count(self, name: str, default: int | None = None) -> int | None:
        """Return a whole number that is not negative."""
        value = self.number(name, default)
        if value is None or value >= 0:
            return value
        self.wrong(name, "negative")
        return default

    def flag(self, name: str, *, default: bool) -> bool:
        """Return true or false."""
        value = self._value(name)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        self.wrong(name, "neither true nor false")
        return default

    def quantity(self, name: str, read: Callable[[str | int], int]) -> int | None:
        """Return a quantity by `read`; None where there is none, or it is invalid or negative."""
        value = self._value(name)
        if value is None:
            return None
        try:
            found = read(value if isinstance(value, int) and not isinstance(value, bool) else str(value))
        except ValueError:
            self.wrong(name, "not a quantity")
            return None
        if found < 0:
            self.wrong(name, "negative")
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
            self.wrong(name, "not a time")
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
        part = Part(self._object(name), f"{self.at}{name}.", self.problems)
        found = {key: part.quantity(key, lambda value, key=key: read(key, value)) for key in part.given}
        return {key: one for key, one in found.items() if one is not None}

    def has(self, name: str) -> bool:
        """Tell whether a field is there."""
        return self._value(name) is not None

    def part(self, name: str) -> Part:
        """Return an object within; an empty one where it is absent."""
        return Part(self._object(name), f"{self.at}{name}.", self.problems)

    def parts(self, name: str) -> Iterator[Part]:
        """Yield the objects of a list."""
        for place, one in self._items(name):
            if self._is(one, dict, f"{name}[{place}]", "an object"):
                yield Part(cast("Json", one), f"{self.at}{name}[{place}].", self.problems)

    def by(self, read: Callable[[Json], T], default: T) -> T:
        """Return what is read of the whole part by what raises FieldError."""
        try:
            return read(dict(self.given))
        except FieldError as error:
            self.problems.append(f"{self.at}{error}")
            return default

    def ignore(self, *names: str) -> None:
        """Take note of fields that are known, and are not for quotas."""
        self._known.update(names)

    def close(self) -> None:
        """Tell the fields that are not known."""
        self.problems += [f"{self.at}{name}: not a known field" for name in self.given if name not in self._known]

    def wrong(self, name: str, what: str) -> None:
        """Tell what is wrong with a field."""
        self.problems.append(f"{self.at}{name}: {what}: {short(self.given.get(name))}")

    def _value(self, name: str) -> object:
        self._known.add(name)
        return self.given.get(name)

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
        self.problems.append(f"{self.at}{name}: not {what}: {short(value)}")
        return False


def opened(given: Mapping[str, Any], problems: list[str]) -> tuple[str, str, Part]:
    """Return the namespace, the name and the spec of an object."""
    whole = Part(given, "", problems)
    whole.ignore("apiVersion", "kind", "status")
    metadata, spec = whole.part("metadata"), whole.part("spec")
    whole.close()
    name = metadata.text("name")
    if not name:
        metadata.wrong("name", "not a name")
    return metadata.text("namespace"), name, spec
