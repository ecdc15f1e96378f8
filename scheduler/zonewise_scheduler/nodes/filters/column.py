"""A value of each row out of few distinct ones, as codes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from numpy.typing import NDArray

V = TypeVar("V", bound="Hashable")

_SPARE = 64


class Column(Generic[V]):
    """Values by row, each distinct one kept once: what is asked of all rows is asked once of each value."""

    def __init__(self, rows: int, value: V) -> None:
        self.codes: NDArray[np.int64] = np.zeros(rows, np.int64)
        """By row: the place of its value in values."""
        self.values: list[V] = [value]
        """Some may be of no row any more."""
        self._codes: dict[V, int] = {value: 0}

    def set(self, rows: Sequence[int], values: Iterable[V]) -> None:
        """Set the values of some rows."""
        if len(self.values) >= 2 * len(self.codes) + _SPARE:
            self._compact()
        self.codes[rows] = [self._code(value) for value in values]

    def _code(self, value: V) -> int:
        code = self._codes.get(value)
        if code is None:
            code = self._codes[value] = len(self.values)
            self.values.append(value)
        return code

    def mask(self, test: Callable[[V], bool]) -> NDArray[np.bool_]:
        """Return what a test says of the value of each row, (rows,)."""
        return np.array([test(value) for value in self.values], np.bool_)[self.codes]

    def _compact(self) -> None:
        """Forget the values that no row has."""
        used, codes = np.unique(self.codes, return_inverse=True)
        self.values = [self.values[code] for code in used.tolist()]
        self.codes = codes.astype(np.int64)
        self._codes = {value: code for code, value in enumerate(self.values)}
