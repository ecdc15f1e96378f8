"""Stores numbers of many jobs in arrays instead of objects: nine bytes each, compared with 32 in a list of floats."""

from __future__ import annotations

from array import array
from math import nan
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_ABSENT, _INTEGER, _FLOAT = 0, 1, 2


class NumberColumn:
    """Numbers by index; integers remain integers, since a log and a JSON document distinguish 5 from 5.0.

    Integers are exact up to 2**53.
    """

    __slots__ = ("_kinds", "_values")

    def __init__(self) -> None:
        self._values = array("d")
        self._kinds = bytearray()

    def __len__(self) -> int:
        """Return the number of indices, including those without a number."""
        return len(self._kinds)

    def __contains__(self, index: int) -> bool:
        """Return whether an index has a number."""
        return index < len(self._kinds) and self._kinds[index] != _ABSENT

    def __getitem__(self, index: int) -> float:
        """Return the number at an index; raise KeyError if there is none."""
        if index not in self:
            raise KeyError(index)
        value = self._values[index]
        return int(value) if self._kinds[index] == _INTEGER else value

    def __setitem__(self, index: int, value: float) -> None:
        """Set the number at an index; new indices before it have none."""
        missing = index + 1 - len(self._kinds)
        if missing > 0:
            self._values.extend([nan] * missing)
            self._kinds.extend(bytes(missing))
        self._values[index] = value
        self._kinds[index] = _INTEGER if isinstance(value, int) else _FLOAT

    def append(self, value: float) -> None:
        """Add a number at the end."""
        self._values.append(value)
        self._kinds.append(_INTEGER if isinstance(value, int) else _FLOAT)

    def number(self, index: int) -> float | None:
        """Return the number at an index; None if there is none."""
        if index not in self:
            return None
        return self[index]

    def indices(self) -> Iterator[int]:
        """Yield the indices with a number, ascending."""
        return (index for index, kind in enumerate(self._kinds) if kind != _ABSENT)

    def floats(self, length: int) -> NDArray[np.float64]:
        """Return the first numbers as an array of this length; NaN if there is none."""
        values = np.full(length, nan)
        known = min(length, len(self._values))
        values[:known] = self._values[:known]
        return values
