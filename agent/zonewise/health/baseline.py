"""The baseline: the devices and performance of a healthy node, learned from observations.

It is learned at the first observation that has no fault and all of its readings. After that it can only rise. A link
that trains wider or a port that comes up belongs to a healthy node. A device that is gone remains expected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from zonewise.health.types import Baseline, LinkReading

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise.health.types import Fault, HardwareObservation

N = TypeVar("N", int, float)


def learn(observation: HardwareObservation, before: Baseline | None, faults: Iterable[Fault] = ()) -> Baseline | None:
    """Return the baseline after an observation; None while no observation qualifies."""
    if before is None:
        return _risen(observation, Baseline()) if not observation.silent and not any(faults) else None
    risen = _risen(observation, before)
    return before if risen == before else risen


def _risen(observation: HardwareObservation, before: Baseline) -> Baseline:
    addresses = observation.pci or frozenset()
    gpus = observation.gpu_addresses & addresses
    rates: dict[str, float | None] = {
        name: port.rate_gbps for name, port in observation.ports.items() if (port.state or "").startswith("ACTIVE")
    }
    rates |= {
        name: nic.speed_mbps / 1000 if nic.speed_mbps is not None else 0.0
        for name, nic in observation.nics.items()
        if nic.up
    }
    links = {address: _best(link, before.links.get(address)) for address, link in observation.links.items()}
    nvlinks = {address: gpu.nvlinks for address, gpu in (observation.gpus or {}).items() if not gpu.lost}
    return Baseline(
        before.gpus | gpus,
        before.nics | (observation.nic_addresses & addresses),
        {**before.links, **links},
        _most(before.rates, rates),
        _larger(before.cpus, observation.cpus.online),
        _larger(before.memory, observation.memory_total),
        _most(before.nvlinks, nvlinks),
    )


def _best(link: LinkReading, before: LinkReading | None) -> LinkReading:
    if before is None:
        return link
    return LinkReading(_larger(before.speed_gts, link.speed_gts), _larger(before.width, link.width))


def _larger(a: N | None, b: N | None) -> N | None:
    known = [value for value in (a, b) if value is not None]
    return max(known) if known else None


def _most(before: Mapping[str, N], now: Mapping[str, N | None]) -> dict[str, N]:
    return {**before, **{name: max(value, before.get(name, value)) for name, value in now.items() if value is not None}}
