"""Resources of a history: their capacity, those with equal shares in all jobs, and the width of each job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zonewise_scheduler.simulator.plot.step_functions import allocated

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.simulator.plot.history_arrays import Floats, HistoryArrays


def resource_capacity(arrays: HistoryArrays, capacity: Mapping[str, int]) -> dict[str, int]:
    """Return the capacity of each limited resource, scarcest first, by descending utilisation.

    If no resource is limited, the peak usage replaces the capacity. Unused resources are left out, unless all are
    unused.
    """
    sizes = {name: size for name, size in capacity.items() if size > 0}
    if not sizes:
        sizes = {name: size for name in arrays.amounts if (size := _peak(arrays, name)) > 0}
    shares = {name: arrays.resource_seconds(name) / size for name, size in sizes.items()}
    order = sorted(sizes, key=lambda name: (-round(shares[name], 6), name))
    return {name: sizes[name] for name in order if shares[name]} or sizes


def group_equal_shares(all_arrays: Sequence[HistoryArrays], capacity: Mapping[str, int]) -> list[list[str]]:
    """Group the resources of which every job uses the same share, in order."""
    groups: list[list[str]] = []
    for name in capacity:
        for group in groups:
            first = group[0]
            if all(
                np.allclose(arrays.share(name, capacity), arrays.share(first, capacity), atol=0)
                for arrays in all_arrays
            ):
                group.append(name)
                break
        else:
            groups.append([name])
    return groups


def _peak(arrays: HistoryArrays, name: str) -> int:
    return int(allocated(arrays, name).values.max(initial=0))


def job_widths(arrays: HistoryArrays, capacity: Mapping[str, int]) -> Floats:
    """Return each job's share of the machine, for the resource of which it uses the most; J."""
    shares = [arrays.share(name, capacity) for name in capacity]
    return np.max(shares, axis=0) if shares else np.zeros(arrays.submitted.size)
