"""The devices of one box as lines on a terminal: a tree of buses, with columns if they fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise.render.boxes import Bus, Device
from zonewise.render.canvas import clip, column_width, line_width, pad, wrap
from zonewise.render.formatting import format_name_range
from zonewise.render.phrases import device_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zonewise.render.canvas import Line, Span

_GAP = 2
_USUAL_NAME = 20  # columns; a longer name gets a line of its own if the width is small
_LONGEST_NAME = 30


class _DeviceRow(NamedTuple):
    """A line of the tree; a line for a bus has only a name."""

    prefix: str
    below: str
    """Prefix of the device's further lines."""
    name: Span
    what: str = ""
    link: str = ""
    address: str = ""
    remarks: tuple[Span, ...] = ()


class DeviceTable:
    """The devices beside a box, which can be laid out in any width."""

    def __init__(self, items: Sequence[Bus | Device]) -> None:
        self._rows = [row for item in items for row in _top_rows(item)]
        devices = [row for row in self._rows if row.what]
        names = [_name_width(row) for row in devices]
        self._name = max(names, default=0)
        self._usual_name = max((width for width in names if width <= _USUAL_NAME), default=0)
        self._what = max((column_width(row.what) for row in devices), default=0)
        self._link = max((len(row.link) for row in devices), default=0)
        self._address = max((len(row.address) for row in devices), default=0)
        self._buses = max((_name_width(row) for row in self._rows if not row.what), default=0)

    @property
    def least(self) -> int:
        """Return the columns that give each device one line without its address, unless its name is very long."""
        return max(self._without_address(self._usual_name), self._buses, min(self._name, _LONGEST_NAME))

    @property
    def natural(self) -> int:
        """Return the columns in which each device fits on one line."""
        remarks = max((sum(column_width(text) + _GAP for _, text in row.remarks) for row in self._rows), default=0)
        return max(self._with_address(self._name) + remarks, self._buses)

    def _without_address(self, name: int) -> int:
        return name + _GAP + self._what + (_GAP + self._link if self._link else 0)

    def _with_address(self, name: int) -> int:
        return self._without_address(name) + (_GAP + self._address if self._address else 0)

    def lines(self, width: int) -> list[Line]:
        """Return the lines in `width` columns."""
        name = self._name if self._without_address(self._name) <= width else self._usual_name
        return [line for row in self._rows for line in self._laid(row, width, name)]

    def _laid(self, row: _DeviceRow, width: int, name: int) -> Iterator[Line]:
        if not row.what:
            yield clip((("bus", row.prefix), row.name), width)
            return
        if _name_width(row) > name or self._without_address(name) > width:
            yield from _flowed(row, width)
            return
        cells: list[Line] = [pad((("bus", row.prefix), row.name), name), pad((("", row.what),), self._what)]
        if self._link:
            cells.append(pad((("", row.link),), self._link))
        if self._address and width >= self._with_address(name):
            cells.append(pad((("dim", row.address),), self._address))
        line: Line = tuple(span for cell in cells for span in (*cell, ("", " " * _GAP)))[:-1]
        yield from _with_remarks(line, row, width)


def _name_width(row: _DeviceRow) -> int:
    return len(row.prefix) + column_width(row.name[1])


def _with_remarks(line: Line, row: _DeviceRow, width: int) -> Iterator[Line]:
    """Yield a line with the remarks after it, or below it if they do not fit."""
    needed = sum(column_width(text) + _GAP for _, text in row.remarks)
    if not row.remarks or line_width(line) + needed <= width:
        yield (*line, *(part for remark in row.remarks for part in (("", " " * _GAP), remark)))
        return
    yield line
    for extra in wrap(row.remarks, width - len(row.below), indent=0):
        yield (("bus", row.below), *extra)


def _flowed(row: _DeviceRow, width: int) -> Iterator[Line]:
    """Yield a device in as many lines as it needs."""
    phrases = (("", row.what), ("", row.link), ("dim", row.address), *row.remarks)
    lines = wrap([(row.name), *(phrase for phrase in phrases if phrase[1])], width - len(row.below), indent=0)
    for i, line in enumerate(lines):
        yield (("bus", row.below if i else row.prefix), *line)


def _top_rows(item: Bus | Device) -> Iterator[_DeviceRow]:
    if isinstance(item, Device):
        yield _device_row(item, "─ ", "  ")
        return
    yield _DeviceRow("", "", ("bus", " · ".join(item.names)))
    yield from _rows_below(item, "")


def _rows_below(bus: Bus, prefix: str) -> Iterator[_DeviceRow]:
    for i, item in enumerate(bus.items):
        last = i == len(bus.items) - 1
        branch, below = f"{prefix}{'└' if last else '├'} ", f"{prefix}{' ' if last else '│'} "
        if isinstance(item, Device):
            yield _device_row(item, branch, below)
        else:
            yield _DeviceRow(branch, below, ("bus", " · ".join(item.names)))
            yield from _rows_below(item, below)


def _device_row(device: Device, prefix: str, below: str) -> _DeviceRow:
    count = len(device.names)
    what = device_text(device)
    return _DeviceRow(
        prefix=prefix,
        below=below,
        name=(device.kind, format_name_range(device.names)),
        what=f"{count} × {what}" if count > 1 else what,
        link=device.link or "",
        address=format_name_range(device.addresses) if device.addresses else "",
        remarks=(*(("dim", note) for note in device.notes), *(("bad", f"! {text}") for text in device.warnings)),
    )
