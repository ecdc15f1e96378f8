"""Declared quotas by flavor and resource, in groups of resources that get the same flavor.

pkg/resources/resource.go FlavorResource; pkg/cache/scheduler/resource.go ResourceQuota.
"""

from collections.abc import Iterator
from typing import NamedTuple


class FlavorResource(NamedTuple):
    """A resource of one flavor: the key of quota and usage."""

    flavor: str
    resource: str


class ResourceQuota(NamedTuple):
    """The quota of one FlavorResource in a ClusterQueue or Cohort, in amounts."""

    nominal: int
    borrowing_limit: int | None = None
    """Maximum amount that the node borrows from its parent; None: no limit."""
    lending_limit: int | None = None
    """Maximum amount of its own quota that the node lends; None: no limit."""


class FlavorQuotas(NamedTuple):
    """The quotas of one flavor."""

    name: str
    quotas: tuple[tuple[str, ResourceQuota], ...]
    """Quotas by resource."""


class ResourceGroup(NamedTuple):
    """Resources for which a pod set gets the same flavor; the flavors are tried in order."""

    flavors: tuple[FlavorQuotas, ...]
    covered_resources: frozenset[str]

    @property
    def flavor_names(self) -> tuple[str, ...]:
        """The names of the flavors, in the order of the scan."""
        return tuple(flavor.name for flavor in self.flavors)


def resource_group(*flavors: FlavorQuotas) -> ResourceGroup:
    """Return the group of flavors that all have the same resources."""
    return ResourceGroup(flavors, frozenset(resource for flavor in flavors for resource, _ in flavor.quotas))


def resource_quotas(groups: tuple[ResourceGroup, ...]) -> Iterator[tuple[FlavorResource, ResourceQuota]]:
    """Yield the quotas of groups (createResourceQuotas)."""
    for group in groups:
        for flavor in group.flavors:
            for resource, quota in flavor.quotas:
                yield FlavorResource(flavor.name, resource), quota
