"""The order of a package's zones in which align-by-socket takes CPUs.

All CPUs of the package count, whichever of its zones is the hint. A request for a whole zone takes the lowest zone that
is free. Any other request takes whole cores, first from the zone with the fewest free CPUs. Sources: getAlignedCPUs of
pkg/kubelet/cm/cpumanager/policy_static.go, takeByTopologyNUMAPacked of cpu_assignment.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from zonewise_scheduler.nodes.arrays.types import I8, I64

_POSITION_BITS = 6
"""A zone is encoded as one number: its free CPUs minus one, followed by its position in this number of bits."""
_POSITION = np.uint64((1 << _POSITION_BITS) - 1)
_LAST = np.uint64((1 << 64) - 1)
"""Code of a zone that is not taken, after all others. Without free CPUs a number is negative, so it also comes late."""


def take_from_packages(packages: Sequence[int], free: I64, zone_cpus: I64, count: int, zone: I8) -> None:
    """Subtract a request for CPUs, a multiple of a core, from the package of each row's zone.

    `packages`: sets of zones by position. `free`: (zones, rows), contiguous; the zone of a row has enough. `zone_cpus`:
    (rows,), the CPUs of each zone of a row. `zone`: (rows,), -1 for rows that are unchanged.
    """
    rows = np.flatnonzero(zone >= 0)
    if rows.size:
        _take(free, _ordered_zones(packages, free, zone_cpus, count, zone, rows), rows, count)


def _ordered_zones(
    packages: Sequence[int], free: I64, zone_cpus: I64, count: int, zone: I8, rows: I64
) -> NDArray[np.uint64]:
    """Return the zones of some rows as numbers, (zones, rows): the lowest one is taken first."""
    if rows.size < zone.size:
        free, zone_cpus, zone = free.take(rows, axis=1), zone_cpus.take(rows), zone.take(rows)
    numbers = free - 1
    numbers <<= _POSITION_BITS
    numbers |= np.arange(len(free))[:, None]
    zones = numbers.view(np.uint64)
    if len(packages) > 1:
        package_of = np.array(
            [[package >> position & 1 for position in range(len(free))] for package in packages]
        ).argmax(axis=0)
        zones[package_of[:, None] != package_of[zone]] = _LAST
    is_whole = zone_cpus == count
    if is_whole.any():
        zones[is_whole & (free != count)] = _LAST
    return zones


def _take(free: I64, zones: NDArray[np.uint64], rows: I64, count: int) -> None:
    """Subtract the request from one zone after another."""
    cells, width = free.reshape(-1), free.shape[1]
    required: I64 | int = count
    while True:
        first = zones.min(axis=0)
        positions = (first & _POSITION).view(np.int64)
        available = (first >> np.uint64(_POSITION_BITS)).view(np.int64) + 1
        left = required - np.minimum(available, required)
        cells[positions * width + rows] -= required - left
        remaining = np.flatnonzero(left)
        if not remaining.size:
            return
        zones, rows, required = zones[:, remaining], rows[remaining], left[remaining]
        zones[positions[remaining], np.arange(remaining.size)] = _LAST
