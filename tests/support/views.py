"""A machine in the terms of the tools that tests compare it with."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zonewise.machine.model.machine import Machine


def package_sets(machine: Machine) -> set[str]:
    """Return the CPU lists of the packages."""
    return {str(package.cpus) for package in machine.packages}


def core_sets(machine: Machine) -> set[str]:
    """Return the CPU lists of the cores."""
    return {str(core.cpus) for core in machine.cores}


def cache_tuples(machine: Machine) -> set[tuple[int, str, int, str]]:
    """Return the caches as (level, type, bytes, CPUs)."""
    return {(cache.level, cache.type, cache.size or 0, str(cache.cpus)) for cache in machine.caches}


def zone_sizes(machine: Machine) -> dict[int, tuple[str, int]]:
    """Return the zones as id -> (CPUs, bytes)."""
    return {zone.id: (str(zone.cpus), zone.memory or 0) for zone in machine.zones}
