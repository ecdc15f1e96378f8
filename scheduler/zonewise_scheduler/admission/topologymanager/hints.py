"""Hints: the sets of zones in which a resource can be allocated (topologymanager/topology_manager.go TopologyHint)."""

from typing import NamedTuple


class Hints(NamedTuple):
    """The hints of one resource, each a set of zones as an integer.

    No hint at all means that nothing satisfies the request. None instead of this value means that the resource has no
    preference.
    """

    preferred: tuple[int, ...]
    not_preferred: tuple[int, ...] = ()
    """Possible sets that are wider than necessary; listed only on request (for best-effort)."""


class TopologyHint(NamedTuple):
    """The zones to which the managers align a container (TopologyHint)."""

    zones: int | None
    """None: any zones."""
    preferred: bool


NO_AFFINITY = TopologyHint(None, preferred=False)
"""The hint under policy none."""
