"""Checks of quotas across fields, which a schema cannot express.

Source: pkg/webhooks/clusterqueue_webhook.go, cohort_webhook.go.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from zonewise_common.k8s.labels import is_qualified_name
from zonewise_scheduler.quota.api.resource_quota import resource_quotas

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zonewise_scheduler.quota.api.queue_types import AdmissionCheckStrategyRule
    from zonewise_scheduler.quota.api.resource_quota import ResourceGroup


def check_quotas(
    groups: tuple[ResourceGroup, ...], *, has_parent: bool, parent_field: str, lends_nominal_only: bool
) -> Iterator[str]:
    """Yield the problems in the resource groups of a ClusterQueue or Cohort.

    `parent_field`: the field that names the parent, for messages. `lends_nominal_only`: a ClusterQueue lends only its
    nominal quota. A Cohort also lends the quota of its subtree.
    """
    for name, count in Counter(name for group in groups for name in sorted(group.covered_resources)).items():
        if not is_qualified_name(name):
            yield f"spec.resourceGroups: {name!r:.80} is not the name of a resource"
        if count > 1:
            yield f"spec.resourceGroups: resource {name} is in {count} groups: keep it in one of them"
    for name, count in Counter(name for group in groups for name in group.flavor_names).items():
        if count > 1:
            yield f"spec.resourceGroups: flavor {name} is listed {count} times: keep it in one group, once"
    for (flavor, resource), quota in resource_quotas(groups):
        limits = {"borrowingLimit": quota.borrowing_limit, "lendingLimit": quota.lending_limit}
        for field, limit in limits.items():
            if limit is not None and not has_parent:
                yield f"spec.resourceGroups: {field} of {resource} in flavor {flavor} needs {parent_field}"
        if lends_nominal_only and quota.lending_limit is not None and quota.lending_limit > quota.nominal:
            yield f"spec.resourceGroups: lendingLimit of {resource} in flavor {flavor} is above its nominalQuota"


def check_flavors_of_checks(
    groups: tuple[ResourceGroup, ...], rules: Iterable[AdmissionCheckStrategyRule]
) -> Iterator[str]:
    """Yield the problems of admission checks that a ClusterQueue requires for a flavor of which it has no quota."""
    flavors = {name for group in groups for name in group.flavor_names}
    for rule in rules:
        for name in sorted(rule.on_flavors - flavors):
            yield f"spec.admissionChecksStrategy: onFlavors of check {rule.name}: there is no quota of flavor {name}"
