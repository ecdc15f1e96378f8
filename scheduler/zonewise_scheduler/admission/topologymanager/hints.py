"""Hints: in which sets of zones a resource can be allocated (topologymanager/topology_manager.go TopologyHint)."""

from typing import NamedTuple


class Hints(NamedTuple):
    """The hints of one resource, each set of zones as an integer. None instead: the resource has no preference.

    No hint at all means that nothing satisfies the request.
    """

    preferred: tuple[int, ...]
    not_preferred: tuple[int, ...] = ()
    """Possible, but wider than necessary; listed only on request (best-effort)."""


class TopologyHint(NamedTuple):
    """The zones to which the managers align a container (TopologyHint)."""

    zones: int | None
    """None: any."""
    preferred: bool


NO_AFFINITY = TopologyHint(None, preferred=False)
"""The hint under policy none."""
