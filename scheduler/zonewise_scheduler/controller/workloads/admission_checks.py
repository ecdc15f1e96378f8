"""States of the admission checks of a Workload (status.admissionChecks; pkg/workload/admissionchecks.go)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import FieldReader
from zonewise_scheduler.controller.workloads.conditions import api_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from zonewise_scheduler.controller.types import Json

READY, PENDING, RETRY, REJECTED = "Ready", "Pending", "Retry", "Rejected"


def checks_of(workload: Mapping[str, object]) -> list[Json]:
    """Return the states of a Workload's checks; invalid ones are omitted."""
    return [dict(reader.obj) for reader in FieldReader(workload, "", []).child("status").children("admissionChecks")]


def pod_set_updates(workload: Json, pod_set: str) -> Iterator[Json]:
    """Yield what the passed checks of a Workload add to the pods of a pod set."""
    for check in workload["status"].get("admissionChecks") or ():
        if check.get("state") == READY:
            yield from (update for update in check.get("podSetUpdates") or () if update.get("name") == pod_set)


def are_all_ready(checks: Iterable[Mapping[str, object]]) -> bool:
    """Return whether all checks have passed."""
    return all(check.get("state") == READY for check in checks)


def checks_named(workload: Mapping[str, object], names: Iterable[str], now: float) -> list[Json]:
    """Return the checks with these names. Those that the Workload lacks are pending."""
    observed = {str(check.get("name")): check for check in checks_of(workload)}
    required = set(names)
    present = [name for name in observed if name in required]
    return [observed.get(name) or _pending_check(name, "", now) for name in (*present, *sorted(required - {*present}))]


def required_checks(workload: Mapping[str, object], pending: Sequence[str], now: float) -> list[Json]:
    """Return the checks of an admission: those that have passed, and the pending ones."""
    observed = {str(check.get("name")): check for check in checks_of(workload)}
    passed = [name for name, check in observed.items() if check.get("state") == READY and name not in pending]
    return [observed.get(name) or _pending_check(name, "", now) for name in (*passed, *pending)]


def reset_checks(workload: Mapping[str, object], now: float) -> list[Json]:
    """Return the checks after an eviction: all are pending, retries are counted (evict.go resetChecksOnEviction)."""
    return [_reset_check(check, now) for check in checks_of(workload)]


def with_check(workload: Mapping[str, object], change: Json, now: float) -> list[Json]:
    """Return all checks after one of them changes; `change`: its name, its new state and other fields."""
    checks = checks_of(workload)
    for i, check in enumerate(checks):
        if check.get("name") == change["name"]:
            is_same = check.get("state") == change["state"] and check.get("lastTransitionTime")
            time = check["lastTransitionTime"] if is_same else api_time(now)
            checks[i] = {"message": "", **change, "lastTransitionTime": time}
    return checks


def _reset_check(check: Json, now: float) -> Json:
    state = check.get("state")
    if state == PENDING:
        return check
    message = f"Reset to Pending after eviction. Previously: {state}"
    reset = _pending_check(str(check.get("name")), message, now)
    if check.get("requeueAfterSeconds") is not None:
        reset["requeueAfterSeconds"] = check["requeueAfterSeconds"]
    if state == RETRY:
        reset["retryCount"] = (FieldReader(check, "", []).count("retryCount", 0) or 0) + 1
    return reset


def _pending_check(name: str, message: str, now: float) -> Json:
    return {"name": name, "state": PENDING, "message": message, "lastTransitionTime": api_time(now)}
