"""The matrix of PCI relations between devices of all kinds, similar to `nvidia-smi topo -m`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from zonewise.render.canvas import clip, column_width, pad, paint, wrap
from zonewise.render.devices import located_devices
from zonewise.render.formatting import clean_all, format_cpu_list, format_name_range

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zonewise.machine.model.machine import Machine
    from zonewise.render.canvas import Line
    from zonewise.render.devices import LocatedDevice

_KINDS = ("gpu", "accelerator", "network", "storage")
_FOLDED_FROM = 41  # rows; more do not fit on a screen
_LONGEST_HEAD, _LONGEST_NAME, _LONGEST_AFFINITY = 16, 18, 34  # columns
_NAMESPACE = re.compile(r"(nvme\d+)n\d+")
_SELF, _UNKNOWN = "X", "?"

_MEANINGS = {
    "X": "the device itself",
    "SAME": "functions of one device",
    "PIX": "behind one PCIe switch",
    "PXB": "behind several PCIe switches, not crossing a host bridge",
    "PHB": "below one host bridge",
    "NODE": "below different host bridges of one zone",
    "SYS": "in different zones",
    "?": "not known",
}


class _MatrixRow(NamedTuple):
    """A device with all its functions, or several devices with equal relations."""

    names: tuple[str, ...]
    kind: str
    addresses: tuple[str, ...]
    """Full addresses of all functions."""
    description: str
    zone: int | None
    cpus: str
    inner: str = _SELF
    """The relation between the row's devices, if it stands for several."""

    @property
    def label(self) -> str:
        return format_name_range(self.names)


class _Relations:
    """The relations between pairs of functions."""

    def __init__(self, machine: Machine) -> None:
        self._by_pair = {frozenset((link.a, link.b)): link.relation for link in machine.links}

    def between(self, a: _MatrixRow, b: _MatrixRow) -> str:
        """Return the relation of two devices: that of their first functions with a known relation."""
        for first in a.addresses:
            for second in b.addresses:
                relation = self._by_pair.get(frozenset((first, second)))
                if relation:
                    return relation
        return _UNKNOWN


class MatrixTable(NamedTuple):
    """The matrix as a table: computing devices against computing and network devices, or all against all."""

    rows: tuple[_MatrixRow, ...]
    columns: tuple[_MatrixRow, ...]
    cells: tuple[tuple[str, ...], ...]

    def meanings(self) -> list[tuple[str, str]]:
        """Return the relations in the table, each with its meaning."""
        used = {cell for line in self.cells for cell in line}
        meanings = [(relation, meaning) for relation, meaning in _MEANINGS.items() if relation in used]
        linked = any(relation.startswith("NV") for relation in used)
        return [*meanings, ("NV#", "linked by # NVLinks")] if linked else meanings


def matrix_table(machine: Machine, *, everything: bool) -> MatrixTable:
    """Return the table: its rows are GPUs and accelerators, and its columns are these and network ports.

    Without any GPU or accelerator, both are network ports. With `everything`, both are all devices, including drives.
    If there are more than 40 devices, those with equal relations to all others share a row.
    """
    devices = clean_all(_rows(machine))
    relations = _Relations(machine)
    if not everything:
        devices = tuple(device for device in devices if device.kind != "storage")
    if len(devices) >= _FOLDED_FROM:
        devices = _fold_rows(devices, relations)
    computing = tuple(device for device in devices if device.kind in ("gpu", "accelerator"))
    rows = computing if computing and not everything else devices
    cells = tuple(
        tuple(row.inner if row is column else relations.between(row, column) for column in devices) for row in rows
    )
    return MatrixTable(rows, devices, cells)


def render_matrix(machine: Machine, width: int, *, everything: bool = True) -> str:
    """Return the matrix with its legend, in lines of at most `width` columns.

    The functions of one device share a row. Columns that do not fit follow in further blocks. Without `everything`, the
    drives and the list of devices are left out, and a single device gets no matrix.
    """
    table = matrix_table(machine, everything=everything)
    if not table.rows:
        return "No devices with a PCI address." if everything else ""
    if len(table.columns) < 2 and not everything:
        return ""
    lines = [line for block in _blocks(table, width) for line in (*block, ())]
    if everything:
        lines += [*_legend(table.rows, width), ()]
    lines += _meanings(table, width)
    return paint(lines, colour=False, unicode=True)


# --- rows


def _rows(machine: Machine) -> tuple[_MatrixRow, ...]:
    slots: dict[str, list[LocatedDevice]] = {}
    for located in located_devices(machine):
        if located.function and located.device.kind in _KINDS:
            slots.setdefault(located.function.address.rpartition(".")[0], []).append(located)
    zones = {zone.id: format_cpu_list(zone.cpus) for zone in machine.zones}
    rows = [_row(functions, zones) for functions in slots.values()]
    return tuple(sorted(rows, key=lambda row: _KINDS.index(row.kind)))


def _row(functions: Sequence[LocatedDevice], zones: dict[int, str]) -> _MatrixRow:
    first = functions[0]
    function = first.function
    cpus = format_cpu_list(function.cpus) if function and function.cpus else ""
    addresses = (located.function.address for located in functions if located.function)
    name = _short_name(first.device.names[0])
    descriptions = dict.fromkeys(_description(located, name) for located in functions)
    return _MatrixRow(
        names=(name,),
        kind=first.device.kind,
        addresses=tuple(dict.fromkeys(addresses)),
        description=", ".join(descriptions),
        zone=first.zone,
        cpus=cpus or zones.get(-1 if first.zone is None else first.zone, ""),
    )


def _description(located: LocatedDevice, row: str) -> str:
    name = located.device.names[0]
    return located.device.description if name == row else f"{name} {located.device.description}"


def _short_name(name: str) -> str:
    """Return the name of an RDMA device without that of its netdev, or of a drive without its namespace."""
    name = name.partition("/")[0]
    match = _NAMESPACE.fullmatch(name)
    return match[1] if match else name


def _fold_rows(rows: Sequence[_MatrixRow], relations: _Relations) -> tuple[_MatrixRow, ...]:
    """Return the rows with equal ones merged: two devices are equal if any third device has equal relations to both.

    This is an equivalence relation, and all members of a class have the same relation to one another.
    """
    classes: list[list[_MatrixRow]] = []
    for row in rows:
        for members in classes:
            if _is_equal(row, members[0], rows, relations):
                members.append(row)
                break
        else:
            classes.append([row])
    return tuple(_class_row(same, relations) for same in classes)


def _is_equal(a: _MatrixRow, b: _MatrixRow, rows: Sequence[_MatrixRow], relations: _Relations) -> bool:
    if (a.kind, a.zone, a.cpus) != (b.kind, b.zone, b.cpus):
        return False
    rest = (row for row in rows if row is not a and row is not b)
    return all(relations.between(a, row) == relations.between(b, row) for row in rest)


def _class_row(members: Sequence[_MatrixRow], relations: _Relations) -> _MatrixRow:
    if len(members) == 1:
        return members[0]
    return members[0]._replace(
        names=tuple(name for row in members for name in row.names),
        addresses=tuple(address for row in members for address in row.addresses),
        description=f"{len(members)} devices, the first: {members[0].description}",
        inner=relations.between(members[0], members[1]),
    )


# --- the table


def _blocks(table: MatrixTable, width: int) -> Iterator[list[Line]]:
    """Yield the table in as many blocks of columns as the width requires."""
    rows = table.rows
    columns = [[column.label, *(line[i] for line in table.cells)] for i, column in enumerate(table.columns)]
    columns.append(["Zone  CPUs", *(f"{'?' if row.zone is None else row.zone:<4}  {row.cpus or '?'}" for row in rows)])
    limits = [_LONGEST_HEAD] * len(table.columns) + [_LONGEST_AFFINITY]
    widths = [min(max(map(column_width, column)), limit) for column, limit in zip(columns, limits, strict=True)]
    names = min(max(column_width(row.label) for row in rows), _LONGEST_NAME, width // 3)
    gap = 1 if names + sum(wide + 1 for wide in widths) <= width < names + sum(wide + 2 for wide in widths) else 2
    start = 0
    while start < len(columns):
        end, used = start, names
        while end < len(columns) and (end == start or used + gap + widths[end] <= width):
            used += gap + widths[end]
            end += 1
        parts = [(["", *(row.label for row in rows)], names), *zip(columns[start:end], widths[start:end], strict=True)]
        yield [clip(_table_line(parts, index, gap), width) for index in range(len(rows) + 1)]
        start = end


def _table_line(parts: Sequence[tuple[Sequence[str], int]], row: int, gap: int) -> Line:
    cells = [("", "".join(text for _, text in pad((("", column[row]),), wide))) for column, wide in parts]
    return (("", (" " * gap).join(text for _, text in cells)),)


# --- the legend


def _legend(rows: Sequence[_MatrixRow], width: int) -> Iterator[Line]:
    lines = [(row.label, _addresses(row), row.description) for row in rows]
    wide = [max(column_width(line[i]) for line in lines) for i in range(3)]
    for label, addresses, what in lines:
        if sum(wide) + 4 <= width:
            yield (*pad((("", label),), wide[0] + 2), *pad((("", addresses),), wide[1] + 2), ("", what))
        else:
            yield from wrap([("", label), ("", addresses), ("", what)], width)


def _addresses(row: _MatrixRow) -> str:
    known = row.addresses
    return " ".join(known if len(known) < 4 else (known[0], "..", known[-1]))


def _meanings(table: MatrixTable, width: int) -> Iterator[Line]:
    for relation, meaning in table.meanings():
        for i, line in enumerate(wrap([("", meaning)], width - 6, indent=0)):
            yield (("", "" if i else relation), ("", " " * (6 if i else 6 - len(relation))), *line)
    if any(len(row.names) > 1 for row in table.rows):
        yield from wrap(
            [("", "A row of several devices shows their relation to one another in its own column.")], width
        )
