"""Switches, links and HCAs, as a dump or a file of Slurm describes them."""

from __future__ import annotations

from typing import NamedTuple


class FabricError(ValueError):
    """A file cannot be used. The message names the file, the line and the value."""


class FabricSwitch(NamedTuple):
    """A switch of the fabric."""

    name: str
    """Unique among the switches."""
    tier: int | None = None
    """Number of switches between it and the nodes, if the file declares it; None if it follows from the links."""


class Hca(NamedTuple):
    """A host channel adapter, or the line of a node in a file of Slurm, which has no GUID."""

    guid: str
    """The node GUID as 16 hexadecimal digits; "" if unknown."""
    description: str
    """The node description, which usually contains the host and the device: "node7 mlx5_0"."""
    host: str
    """Lowercase name of the host; "" if the description contains none."""
    leaves: frozenset[str]
    """Ids of the switches to which its ports are connected."""


class NetworkFabric(NamedTuple):
    """All switches and HCAs."""

    switches: dict[str, FabricSwitch]
    """Switches by id."""
    links: frozenset[tuple[str, str]]
    """Pairs of ids of connected switches, the smaller id first."""
    hcas: tuple[Hca, ...]


def link(one: str, two: str) -> tuple[str, str]:
    """Return the link between two switches."""
    return (one, two) if one < two else (two, one)
