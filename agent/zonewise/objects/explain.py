"""Sources of facts: `zonewise show --explain zones.1.memory`.

A fact is named by its path in the JSON document. A list element is named by its unique identity in the kernel (the id
of a zone, the address of a PCI function, the name of a device), otherwise by its index. Names may contain dots
("0000:3b:00.0"), so a path is matched against the existing names, longest first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.cli.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zonewise.machine.model.problem import Source
    from zonewise.objects.machine_json import Json

IDENTIFIED_BY = {
    "zones": "id",
    "pci": "address",
    "gpus": "address",
    "nics": "name",
    "infiniband": "name",
    "block_devices": "name",
    "dax_devices": "name",
    "accelerators": "name",
    "dma_engines": "name",
    "usb": "name",
    "nvdimms": "name",
}
"""Lists of the document whose elements have names, with the field that contains the name."""

ALL = "all"
"""The path that stands for the whole machine."""

_SHOWN_NAMES = 24  # number of names listed for a path that does not exist
_NO_FACTS = frozenset({"schema", "problems", "sources"})


class UnknownFact(Exception):
    """A path does not exist; the message lists the names at the point where it fails."""


class Fact(NamedTuple):
    """A value of the document without further parts."""

    path: tuple[str, ...]
    value: Json


def explain(document: Mapping[str, Any], sources: Mapping[str, Source], path: str) -> str:
    """Return text with the value, file, raw value and rule of each fact at and below a path.

    Control characters from files are escaped. Raises UnknownFact.
    """
    return "".join(_paragraph(fact, _origin(fact.path, sources), sources) for fact in facts(document, path))


def select_sources(document: Mapping[str, Any], sources: Mapping[str, Source], path: str) -> dict[str, Source]:
    """Return the sources of the facts at and below a path; a parent's source covers facts without one. Raises
    UnknownFact.
    """
    used = {_origin(fact.path, sources) for fact in facts(document, path)}
    return {name: source for name, source in sources.items() if name in used}


def facts(document: Mapping[str, Any], path: str) -> list[Fact]:
    """Return the facts at and below a path, in the order of the document. Raises UnknownFact."""
    known = {key: value for key, value in document.items() if key not in _NO_FACTS}
    prefix, value = ((), known) if path == ALL else _find(known, path)
    return list(_leaves(prefix, value))


def _find(known: dict[str, Json], path: str) -> tuple[tuple[str, ...], Json]:
    prefix: tuple[str, ...] = ()
    value: Json = known
    rest = path
    while rest or not prefix:
        parts = _parts(prefix, value)
        name = _first_name(parts, rest)
        if name is None:
            raise UnknownFact(_no_fact_message(path, prefix, list(parts)))
        value = parts[name]
        # an index into a list of named elements is resolved to the element's name, under which its sources are stored
        prefix = (*prefix, _own_name(prefix, value, name))
        rest = rest[len(name) + 1 :]
    return prefix, value


def _parts(prefix: tuple[str, ...], value: Json) -> dict[str, Json]:
    """Return the parts of a value by name; the elements of a named list also by index."""
    if isinstance(value, dict):
        return value
    if not isinstance(value, list):
        return {}
    named = {_own_name(prefix, element, ""): element for element in value}
    named.pop("", None)
    if named and all(name.isdecimal() for name in named):
        return named  # in the list of zones a number is always an id
    return {**named, **{str(number): element for number, element in enumerate(value) if str(number) not in named}}


def _own_name(prefix: tuple[str, ...], element: Json, default: str) -> str:
    field = IDENTIFIED_BY.get(prefix[0]) if len(prefix) == 1 else None
    own = element.get(field) if field and isinstance(element, dict) else None
    return default if own is None else str(own)


def _first_name(parts: Mapping[str, Json], path: str) -> str | None:
    fitting = [name for name in parts if path == name or path.startswith(f"{name}.")]
    return max(fitting, key=len, default=None)


def _no_fact_message(path: str, prefix: tuple[str, ...], names: list[str]) -> str:
    location = f'below "{".".join(prefix)}"' if prefix else "at the top"
    if not names:
        return f'there is no fact "{path}": nothing is {location}'
    more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
    return f'there is no fact "{path}": {location} there is {", ".join(names[:_SHOWN_NAMES])}{more}'


def _leaves(prefix: tuple[str, ...], value: Json) -> Iterator[Fact]:
    if isinstance(value, dict) and value:
        for name, part in value.items():
            yield from _leaves((*prefix, name), part)
    elif isinstance(value, list) and any(isinstance(element, (dict, list)) for element in value):
        for number, element in enumerate(value):
            yield from _leaves((*prefix, _own_name(prefix, element, str(number))), element)
    else:
        yield Fact(prefix, value)


def _origin(path: tuple[str, ...], sources: Mapping[str, Source]) -> str | None:
    """Return the name under which the source of a fact is stored: its own, or that of its nearest parent."""
    for length in range(len(path), 0, -1):
        name = ".".join(path[:length])
        if name in sources:
            return name
    return None


def _paragraph(fact: Fact, origin: str | None, sources: Mapping[str, Source]) -> str:
    import json

    path = ".".join(fact.path)
    lines = [f"{path}: {'unknown' if fact.value is None else json.dumps(fact.value)}"]
    if origin is None:
        return f"{lines[0]}\n  no source is recorded\n"
    source = sources[origin]
    lines.append(f"  file   {printable(source.file)}")
    if source.value is not None:
        lines.append("  value  " + "\n         ".join(map(printable, source.value.split("\n"))))
    lines.append(f"  rule   {source.rule}" + ("" if origin == path else f" (source of {origin})"))
    return "\n".join(lines) + "\n"
