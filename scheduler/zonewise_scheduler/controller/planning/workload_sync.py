"""The entries that an observed Workload feeds to the planner.

    in the planner   observed                            entry
    -                no quota                            submit
    -                quota                               adopt
    pending          no quota                            submit
    pending          quota                               adopt: an earlier leader admitted it
    running          quota                               confirm; update; passed, once all its checks are Ready
    running          no quota, its admission is assumed  update: the observation is older than the decision
    running          no quota                            evict if it was evicted, else forget; then submit
    pending          on hold, ended, or deleted          withdraw
    running          ended, or deleted                   finish
    running          another object with the same name   finish; then as for a workload not in the planner

A workload is on hold until its requeueState.requeueAt, because its pods were not ready in time. A pod group that lacks
pods is on hold until they are replaced (pkg/workload/workload.go IsAdmissible).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.controller.cluster_cache import uid_of
from zonewise_scheduler.controller.planning.pending_checks import checks_required
from zonewise_scheduler.controller.workloads.admission_checks import are_all_ready, checks_of
from zonewise_scheduler.controller.workloads.conditions import condition_time, find_condition, is_true, transition_time
from zonewise_scheduler.controller.workloads.status import REPLACEMENT, has_quota, requeue_time

if TYPE_CHECKING:
    from zonewise_scheduler.backfill.recording.planner_feed import PlannerFeed
    from zonewise_scheduler.controller.types import Json


def sync_workload(feed: PlannerFeed, key: str, obj: Json | None, now: float, *, assumed: bool) -> float | None:
    """Feed the planner an observed Workload; None: it was deleted.

    `assumed`: its admission is decided but not yet observed. Returns the time at which a workload on hold becomes
    pending. Raises InvalidWorkload, after which the planner does not contain the workload. Raises ValueError if the
    workload has quota in a ClusterQueue that does not exist.
    """
    if obj is None or is_true(obj, "Finished"):
        remove_workload(feed, key)
        return None
    run = feed.state.running.get(key)
    if run is not None and run.workload.uid != uid_of(obj):
        feed.finish(key)
    if has_quota(obj):
        _sync_admitted(feed, key, obj, now)
        return None
    if key in feed.state.running:
        if assumed:
            feed.update(obj)
            return None
        _release(feed, key, obj, now)
    hold_until = requeue_time(obj)
    if hold_until > now and not is_true(obj, "Requeued"):
        remove_workload(feed, key)
        return hold_until
    if is_true(obj, REPLACEMENT):
        remove_workload(feed, key)
        return None
    feed.submit(obj)
    return None


def remove_workload(feed: PlannerFeed, key: str) -> None:
    """Remove a workload from the planner, whether it is pending or running."""
    state = feed.state
    if key in state.running:
        feed.finish(key)
    elif key in state.pending or key in state.inadmissible:
        feed.withdraw(key)


def _sync_admitted(feed: PlannerFeed, key: str, obj: Json, now: float) -> None:
    if key in feed.state.running:
        if feed.state.assumed and key in feed.state.assumed:
            feed.confirm(key)
        feed.update(obj)
    else:
        feed.adopt(obj)
    _pass_checks(feed, key, obj, now)


def _pass_checks(feed: PlannerFeed, key: str, obj: Json, now: float) -> None:
    """Record that checks have passed. Pods whose placement waited for them are placed before Admitted is set."""
    run = feed.state.running.get(key)
    admission = None if run is None else run.workload.admission
    if admission is None:
        return
    if is_true(obj, "Admitted"):
        admitted_at = condition_time(obj, "Admitted") or now
        if admission.pending_checks or admission.admitted_at not in {None, admitted_at}:
            feed.checks_passed(key, admitted_at)
        return
    required, checks = checks_required(feed.state, key), checks_of(obj)
    if not admission.pending_checks or required is None or not are_all_ready(checks):
        return
    if {check.get("name") for check in checks}.issuperset(required):
        feed.checks_passed(key, now)


def _release(feed: PlannerFeed, key: str, obj: Json, now: float) -> None:
    """Take the quota from a workload whose object shows none."""
    eviction = find_condition(obj, "Evicted") or {}
    if eviction.get("status") == "True":
        feed.evict(key, str(eviction.get("reason")), transition_time(eviction) or now)
    else:
        feed.forget(key)
