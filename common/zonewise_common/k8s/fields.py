"""Typed reading of the fields of JSON objects, with errors that name the field by its path.

There are two ways to read, which describe the same problem in the same words:

- The functions raise FieldError at the first invalid field. A pod that the API server would reject has no meaning.
- A FieldReader collects problems and continues. An invalid field gets its default, and the rest of the object is used.

The path of an owner is the prefix of the field's name: "spec." or "spec.containers[0].", or "" for a whole object.
"""

from __future__ import annotations

from functools import lru_cache
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args

from zonewise_common.k8s.dates import parse_date
from zonewise_common.k8s.quantity import parse_milli_value
from zonewise_common.k8s.tolerant import Json, abbreviated, sound_list, sound_object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

T = TypeVar("T")

MAX_NUMBER = 2.0**53
"""The largest number that non_negative() accepts: larger floats cannot represent every integer."""

_parse_milli_value = lru_cache(1 << 14)(parse_milli_value)


class FieldError(ValueError):
    """A field that the API server would reject; the message names the field and its value."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field


# --- reading that raises FieldError


def object_in(owner: Mapping[str, Any], name: str, path: str) -> Json:
    """Return an object within another, or an empty one if it is absent."""
    value = owner.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _type_error(f"{path}{name}", "an object", value)
    return cast("Json", value)


def objects_in(owner: Mapping[str, Any], name: str, path: str) -> list[Json]:
    """Return a list of objects within another, or an empty one if it is absent."""
    return cast("list[Json]", _list_in(owner, name, path, dict, "an object"))


def string_in(owner: Mapping[str, Any], name: str, path: str) -> str:
    """Return a string within an object, or "" if it is absent."""
    value = owner.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _type_error(f"{path}{name}", "a string", value)
    return value


def strings_in(owner: Mapping[str, Any], name: str, path: str) -> tuple[str, ...]:
    """Return a list of strings within an object, or an empty one if it is absent."""
    return tuple(cast("list[str]", _list_in(owner, name, path, str, "a string")))


def string_map_in(owner: Mapping[str, Any], name: str, path: str) -> tuple[tuple[str, str], ...]:
    """Return the strings by key within an object, sorted by key."""
    strings = object_in(owner, name, path)
    return tuple((key, string_in(strings, key, f"{path}{name}.")) for key in sorted(strings))


def quantities_in(owner: Mapping[str, Any], name: str, path: str) -> dict[str, int]:
    """Return quantities by resource, each read by milli_quantity()."""
    return {
        resource: milli_quantity(value, f"{path}{name}.{resource}")
        for resource, value in object_in(owner, name, path).items()
    }


def milli_quantity(value: object, field: str) -> int:
    """Return a quantity in thousandths of its unit, rounded up as the API server does.

    Source of the rule: pkg/apis/core/v1/defaults.go SetDefaults_ResourceList.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _type_error(field, "a quantity", value)
    try:
        return _parse_milli_value(str(value))
    except ValueError as error:
        raise FieldError(field, str(error)) from None


def _list_in(owner: Mapping[str, Any], name: str, path: str, kind: type, article_and_kind: str) -> list[object]:
    value = owner.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise _type_error(f"{path}{name}", "a list", value)
    items = cast("list[object]", value)
    for index, item in enumerate(items):
        if not isinstance(item, kind):
            raise _type_error(f"{path}{name}[{index}]", article_and_kind, item)
    return items


def _type_error(field: str, article_and_kind: str, value: object) -> FieldError:
    return FieldError(field, f"not {article_and_kind}: {abbreviated(value)}")


# --- reading that collects problems


class FieldReader:
    """Reads an object field by field, and appends problems to a list that the readers of its parts share."""

    def __init__(self, obj: Mapping[str, Any], path: str, problems: list[str]) -> None:
        self.obj = obj
        self.path = path
        self.problems = problems
        self._known: set[str] = set()

    def text(self, name: str, default: str = "") -> str:
        """Return a string."""
        value = self._value(name)
        return default if value is None or not self._is(value, str, name, "a string") else str(value)

    def choice(self, name: str, literal: object, default: T) -> T:
        """Return a string that is one of the values of a Literal."""
        value = self._value(name)
        if value is None or value in get_args(literal):
            return default if value is None else cast("T", value)
        self.report(name, f"not one of {', '.join(filter(None, get_args(literal)))}")
        return default

    def number(self, name: str, default: int | None = None) -> int | None:
        """Return an integer."""
        value = self._value(name)
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return default if value is None else value
        self.report(name, "not a whole number")
        return default

    def count(self, name: str, default: int | None = None) -> int | None:
        """Return a non-negative integer."""
        value = self.number(name, default)
        if value is None or value >= 0:
            return value
        self.report(name, "negative")
        return default

    def int_in_range(self, name: str, default: int, maximum: int, minimum: int = 1) -> int:
        """Return an integer within a range, both ends included."""
        value = self.number(name, default)
        if value is None or minimum <= value <= maximum:
            return default if value is None else value
        self.report(name, f"not between {minimum} and {maximum}")
        return default

    def non_negative(self, name: str, default: float) -> float:
        """Return a number between 0 and MAX_NUMBER."""
        if not self.has(name):
            return default
        value = non_negative_number(self.obj[name])
        if value is None:
            self.report(name, "not a non-negative number")
            return default
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        """Return a boolean."""
        value = self._value(name)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        self.report(name, "neither true nor false")
        return default

    def quantity(self, name: str, read: Callable[[str | int], int]) -> int | None:
        """Return a quantity that `read` parses; None if it is absent, invalid or negative."""
        value = self._value(name)
        if value is None:
            return None
        try:
            size = read(value if isinstance(value, int) and not isinstance(value, bool) else str(value))
        except ValueError:
            self.report(name, "not a quantity")
            return None
        if size < 0:
            self.report(name, "negative")
            return None
        return size

    def amounts(self, name: str, read: Callable[[str, str | int], int]) -> dict[str, int]:
        """Return quantities by resource, which `read` parses."""
        reader = self.child(name)
        sizes = {key: reader.quantity(key, lambda value, key=key: read(key, value)) for key in reader.obj}
        return {key: size for key, size in sizes.items() if size is not None}

    def time(self, name: str) -> float | None:
        """Return an RFC 3339 time in seconds since 1970; None if it is absent or invalid."""
        value = self.text(name)
        if not value:
            return None
        try:
            return parse_date(value)
        except ValueError:
            self.report(name, "not a time")
            return None

    def required_name(self, name: str = "name") -> str:
        """Return a string that must be present and not empty."""
        if self.report_missing(name):
            return ""
        text = self.text(name)
        if text == self.obj[name] == "":
            self.report(name, "not a name")
        return text

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of strings."""
        return tuple(str(item) for _, item in self._items(name, str, "a string"))

    def pairs(self, name: str) -> dict[str, str]:
        """Return strings by key."""
        values = self._object(name)
        return {key: value for key, value in values.items() if self._is(value, str, f"{name}.{key}", "a string")}

    def child(self, name: str) -> FieldReader:
        """Return the reader of a nested object; if it is absent, the reader of an empty object."""
        return FieldReader(self._object(name), f"{self.path}{name}.", self.problems)

    def children(self, name: str) -> Iterator[FieldReader]:
        """Yield the readers of the objects in a list."""
        for index, item in self._items(name, dict, "an object"):
            yield FieldReader(cast("Json", item), f"{self.path}{name}[{index}].", self.problems)

    def read_whole(self, read: Callable[[Json], T], default: T) -> T:
        """Return the result of a function that reads the whole object and raises FieldError."""
        try:
            return read(dict(self.obj))
        except FieldError as error:
            self.problems.append(f"{self.path}{error}")
            return default

    def spec_field(self, name: str, read: Callable[[Json], T], default: T) -> T:
        """Return a field of a pod's or node's spec, read by a function that takes the spec and raises FieldError."""
        self.ignore(name)
        try:
            return read({name: self.obj.get(name)})
        except FieldError as error:
            self.problems.append(f"{self.path}{str(error).removeprefix('spec.')}")
            return default

    def has(self, name: str) -> bool:
        """Return whether a field is present and not null."""
        return self._value(name) is not None

    def ignore(self, *names: str) -> None:
        """Mark fields that are not read as known."""
        self._known.update(names)

    def report(self, name: str, problem: str) -> None:
        """Append a problem with a field and its value."""
        self.problems.append(f"{self.path}{name}: {problem}: {abbreviated(self.obj.get(name))}")

    def report_missing(self, *names: str) -> bool:
        """Append a problem for each absent field; return whether any is absent."""
        missing = [name for name in names if not self.has(name)]
        self.problems += [f"{self.path}{name}: is missing" for name in missing]
        return bool(missing)

    def report_unknown(self) -> None:
        """Append a problem for each field that was neither read nor ignored."""
        self.problems += [f"{self.path}{name}: unknown field" for name in self.obj if name not in self._known]

    def _value(self, name: str) -> object:
        self._known.add(name)
        return self.obj.get(name)

    def _object(self, name: str) -> Json:
        return sound_object(self._value(name), f"{self.path}{name}", self.problems)

    def _items(self, name: str, kind: type, article_and_kind: str) -> Iterator[tuple[int, object]]:
        for index, item in enumerate(sound_list(self._value(name), f"{self.path}{name}", self.problems)):
            if self._is(item, kind, f"{name}[{index}]", article_and_kind):
                yield index, item

    def _is(self, value: object, kind: type, name: str, article_and_kind: str) -> bool:
        if isinstance(value, kind):
            return True
        self.problems.append(str(_type_error(f"{self.path}{name}", article_and_kind, value)))
        return False


def non_negative_number(value: object) -> float | None:
    """Return a number between 0 and MAX_NUMBER; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= MAX_NUMBER and isfinite(value) else None


def open_object(obj: Mapping[str, Any], problems: list[str]) -> tuple[str, str, FieldReader]:
    """Return the namespace and name of an API object, and the reader of its spec."""
    whole = FieldReader(obj, "", problems)
    whole.ignore("apiVersion", "kind", "status")
    metadata, spec = whole.child("metadata"), whole.child("spec")
    whole.report_unknown()
    name = metadata.text("name")
    if not name:
        metadata.report("name", "not a name")
    return metadata.text("namespace"), name, spec
