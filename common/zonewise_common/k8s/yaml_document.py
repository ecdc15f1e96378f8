"""Documents of YAML or JSON that people write: all errors in them raise one exception type.

Aliases may repeat a value many times, and a repeated value may contain aliases itself. A file of 500 bytes can thus
contain a billion values, and any function that reads or prints all of them never ends.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_MAX_SHOWN = 300
_MAX_VALUES = 10_000_000
"""Maximum number of values of a file whose values are repeated."""


def load_yaml(content: bytes | str) -> object:
    """Return the value of the only document. Raises ValueError with the reason if it cannot be parsed."""
    import yaml

    return _parsed(lambda: yaml.safe_load(content))


def load_documents(content: bytes | str) -> list[object]:
    """Return the values of all documents. Raises ValueError."""
    import yaml

    return _parsed(lambda: list(yaml.safe_load_all(content)))


def load_first_document(content: bytes | str) -> object:
    """Return the value of the first document, as Go's decoder does; the others are not read. Raises ValueError."""
    import yaml

    return _parsed(lambda: next(iter(yaml.safe_load_all(content)), None))


def check_aliases(value: object) -> None:
    """Raise ValueError for a value that contains itself, or too many values in all."""
    if _count(value, {}) > _MAX_VALUES:
        raise ValueError(f"with its aliases, it has more than {_MAX_VALUES} values")


def _count(value: object, counts: dict[int, float]) -> float:
    """Return the number of values in a value; infinite if it contains itself. `counts`: those of parts, by identity."""
    if isinstance(value, dict):
        parts = cast("dict[object, object]", value).values()
    elif isinstance(value, list):
        parts = cast("list[object]", value)
    else:
        return 1
    key = id(cast("object", value))
    if key not in counts:
        counts[key] = inf  # while its parts are counted
        counts[key] = 1 + sum(_count(part, counts) for part in parts)
    return counts[key]


def _parsed(parse: Callable[[], T]) -> T:
    import yaml

    try:
        value = parse()
        check_aliases(value)
        return value
    # constructors of PyYAML raise the last three for `!!int ""`, `!!bool x` and `!!timestamp x`
    except (yaml.YAMLError, ValueError, RecursionError, LookupError, AttributeError) as error:
        raise ValueError(f"no YAML: {' '.join(str(error).split())[:_MAX_SHOWN]}") from error
