"""Quotas as they are declared: per flavor and resource, in groups of resources that get the same flavor."""

from collections.abc import Iterator
from typing import NamedTuple


class FlavorResource(NamedTuple):
    """A resource of one flavor: what quotas are counted by."""

    flavor: str
    resource: str


class ResourceQuota(NamedTuple):
    """The quota of one FlavorResource in a ClusterQueue or Cohort, in amounts."""

    nominal: int
    borrowing_limit: int | None = None
    """At most so much more than its own from its parent; None: no limit."""
    lending_limit: int | None = None
    """At most so much of its own to others; None: no limit."""


class FlavorQuotas(NamedTuple):
    """The quotas of one flavor."""

    name: str
    quotas: tuple[tuple[str, ResourceQuota], ...]
    """By resource."""


class ResourceGroup(NamedTuple):
    """Resources that a pod set gets of one and the same flavor; the flavors are tried in their order."""

    flavors: tuple[FlavorQuotas, ...]
    covered_resources: frozenset[str]
    """The resources."""

    @property
    def flavor_names(self) -> tuple[str, ...]:
        """The flavors, in the order of the scan."""
        return tuple(flavor.name for flavor in self.flavors)


def resource_group(*flavors: FlavorQuotas) -> ResourceGroup:
    """Return the group of flavors that all have the same resources."""
    return ResourceGroup(flavors, frozenset(resource for flavor in flavors for resource, _ in flavor.quotas))


def resource_quotas(groups: tuple[ResourceGroup, ...]) -> Iterator[tuple[FlavorResource, ResourceQuota]]:
    """Yield the quotas of groups."""
    for one in groups:
        for flavor in one.flavors:
            for resource, quota in flavor.quotas:
                yield FlavorResource(flavor.name, resource), quota
