"""The zone of each container, in a few bytes. scheduler-plugins reads it to select pods to preempt.

This is version v001 of github.com/k8stopologyawareschedwg/numaplacement. Writer and reader sort the same containers by
the same hash. A container then becomes a number, and a zone a list of numbers whose differences are written in base 89.
The zone with the most containers is omitted: its containers are those that are in no other zone.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from xxhash import xxh64_intdigest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

PREFIX = "npv0v001"

_SYMBOLS = "".join(symbol for symbol in map(chr, range(0x21, 0x7F)) if symbol not in '"&<>\\')
"""89 symbols that need no escaping in JSON, YAML or XML."""
_TERMINAL = 64
"""The first 64 symbols end a number, the other 25 continue it."""
_CONTINUATION = len(_SYMBOLS) - _TERMINAL

ContainerName = tuple[str, str, str]
"""Namespace, pod and container."""


class NumaPlacement(NamedTuple):
    """Containers by zone, in the published form."""

    metadata: str
    """Metadata for the node."""
    vectors: dict[int, str]
    """Vectors by zone, ascending, without the zone with the most containers and without empty zones."""


def encode(containers: Mapping[ContainerName, int], zones: int) -> NumaPlacement:
    """Return the placement of containers, which maps them to zones.

    Raises ValueError if a zone is not below the number of zones.
    """
    numbers: dict[int, list[int]] = defaultdict(list)
    for number, name in enumerate(sorted(containers, key=_hash)):
        zone = containers[name]
        if not 0 <= zone < zones:
            raise ValueError(f"zone {zone} of {'/'.join(name)} is outside 0..{zones - 1}")
        numbers[zone].append(number)
    busiest = min(numbers, key=lambda zone: (-len(numbers[zone]), zone), default=0)
    metadata = f"{PREFIX}::ve=leb89::cc={len(containers)}::nn={zones}::bn={busiest}"
    return NumaPlacement(metadata, {zone: _vector(numbers[zone]) for zone in sorted(numbers) if zone != busiest})


def decode(placement: NumaPlacement, containers: Iterable[ContainerName]) -> dict[ContainerName, int]:
    """Return the zone of each container; the containers must be those passed to encode().

    Raises ValueError if the placement is damaged or belongs to other containers.
    """
    ordered = sorted(containers, key=_hash)
    facts = _facts(placement.metadata)
    if facts["cc"] != len(ordered):
        raise ValueError(f"a placement of {facts['cc']} containers, not of {len(ordered)}")
    zones = dict.fromkeys(ordered, facts["bn"])
    for zone, vector in placement.vectors.items():
        number = 0
        for difference in _decode_numbers(vector):
            number += difference
            if number >= len(ordered):
                raise ValueError(f"vector {vector!r} of zone {zone} names container {number} of {len(ordered)}")
            zones[ordered[number]] = zone
    return zones


def _hash(name: ContainerName) -> int:
    return xxh64_intdigest("\0".join(name).encode())


def _facts(metadata: str) -> dict[str, int]:
    prefix, *parts = metadata.split("::")
    pairs = {name: value for name, _, value in (part.partition("=") for part in parts)}
    if prefix != PREFIX or pairs.pop("ve", None) != "leb89" or not {"cc", "nn", "bn"} <= pairs.keys():
        raise ValueError(f"not placement metadata of this version: {metadata[:80]!r}")
    return {name: int(value) for name, value in pairs.items()}


def _vector(numbers: list[int]) -> str:
    return "".join(_encode_number(number - before) for before, number in zip([0, *numbers], numbers, strict=False))


def _encode_number(number: int) -> str:
    if number < _TERMINAL:
        return _SYMBOLS[number]
    rest, terminal = divmod(number - _TERMINAL, _TERMINAL)
    text = _SYMBOLS[terminal]
    while True:
        rest, digit = divmod(rest, _CONTINUATION)
        text = _SYMBOLS[_TERMINAL + digit] + text
        if not rest:
            return text


def _decode_numbers(vector: str) -> Iterator[int]:
    above: int | None = None
    for symbol in vector:
        digit_value = _SYMBOLS.find(symbol)
        if digit_value < 0:
            raise ValueError(f"vector {vector!r} has the symbol {symbol!r}")
        if digit_value >= _TERMINAL:
            above = (above or 0) * _CONTINUATION + digit_value - _TERMINAL
        else:
            yield digit_value if above is None else (above + 1) * _TERMINAL + digit_value
            above = None
    if above is not None:
        raise ValueError(f"vector {vector!r} ends within a number")
