"""Hints: in which sets of zones a resource can be given (pkg/kubelet/cm/topologymanager TopologyHint)."""

from typing import NamedTuple


class Hints(NamedTuple):
    """What one resource allows, each set of zones as an integer; None in its place: the resource does not care.

    No hint at all means that nothing satisfies the request.
    """

    preferred: tuple[int, ...]
    not_preferred: tuple[int, ...] = ()
    """Possible, but wider than it need be; listed only where they are asked for (best-effort)."""


class TopologyHint(NamedTuple):
    """What the Topology Manager tells the managers to keep to (TopologyHint)."""

    zones: int | None
    """None: anywhere."""
    preferred: bool


NO_AFFINITY = TopologyHint(None, preferred=False)
"""Under policy none."""
