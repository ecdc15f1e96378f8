"""Completes the rules of a ClusterQueue with data from the AdmissionChecks that they name.

pkg/cache/scheduler/clusterqueue.go updateWithAdmissionChecks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.quota.api.queue_types import AdmissionCheck, AdmissionCheckStrategyRule, ClusterQueue


def with_admission_checks(queue: ClusterQueue, checks: Mapping[str, AdmissionCheck]) -> ClusterQueue:
    """Return a queue whose rules have the controller and status of their checks; `checks`: by name."""
    return queue._replace(admission_checks=tuple(_with_check(rule, checks) for rule in queue.admission_checks))


def _with_check(rule: AdmissionCheckStrategyRule, checks: Mapping[str, AdmissionCheck]) -> AdmissionCheckStrategyRule:
    check = checks.get(rule.name)
    if check is None:
        return rule._replace(status="NotFound")
    return rule._replace(controller_name=check.controller_name, status="Active" if check.is_active else "Inactive")
