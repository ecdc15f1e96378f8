"""A story for each alert, as series in promtool's notation.

Series have one value a minute: 20 minutes without the fault, 90 minutes with it, and 100 minutes without it again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import yaml

from zonewise.publish.worker import DEFAULT_BACKOFF

QUIET_AT, FIRING_AT, RECOVERED_AT = "19m", "109m", "209m"
DAY = 86400

Json = dict[str, Any]


class Series(NamedTuple):
    """A time series with its values."""

    name: str
    values: str


def gauge(name: str, quiet: float, fault: float) -> Series:
    """Return a series with one value while there is no fault and another during the fault."""
    return Series(name, f"{quiet}x19 {fault}x89 {quiet}x99")


def steady(name: str, value: float) -> Series:
    return Series(name, f"{value}x209")


def absent(name: str, value: float) -> Series:
    """Return a series that is absent during the fault."""
    return Series(name, f"{value}x19 stale _x89 {value}x99")


def counter(name: str, a_minute: int, quiet: int = 0) -> Series:
    """Return a counter that rises faster during the fault."""
    first, second = 20 * quiet, 20 * quiet + 90 * a_minute
    return Series(name, f"0+{quiet}x19 {first}+{a_minute}x89 {second}+{quiet}x99")


CASES: dict[str, tuple[Series, ...]] = {
    "ZonewiseAgentDown": (gauge('up{job="zonewise/zonewise-agent", node="n"}', 1, 0),),
    "ZonewiseAgentViewOld": (gauge('zonewise_watch_age_seconds{node="n", resource="nodes"}', 1, 900),),
    "ZonewiseAgentReportOld": (gauge('zonewise_published_age_seconds{node="n"}', 1, 900),),
    "ZonewiseAgentKubeletNotReady": (gauge('zonewise_kubelet_ready{node="n"}', 1, 0),),
    "ZonewiseAgentPublishErrors": (
        counter('zonewise_publish_errors_total{node="n", object="nrt", reason="Forbidden"}',
                int(60 // DEFAULT_BACKOFF.cap)),
    ),
    "ZonewiseAgentCollectorFailed": (gauge('zonewise_collector_success{node="n", collector="pci"}', 1, 0),),
    "ZonewiseAgentRuleFailed": (gauge('zonewise_rules{node="n", state="failed"}', 0, 2),),
    "ZonewiseHardwareFailed": (gauge('zonewise_hardware_fault{node="n", severity="failed"}', 0, 1),),
    "ZonewiseHardwareDegraded": (gauge('zonewise_hardware_fault{node="n", severity="degraded"}', 0, 1),),
    "ZonewiseAgentSettingsRejected": (counter('zonewise_settings_errors_total{node="n"}', 1),),
    "ZonewiseAgentCertificateExpires": (
        gauge('zonewise_tls_certificate_expiry_timestamp_seconds{node="n", file="f"}', 30 * DAY, DAY),
    ),
    "ZonewiseNodeFragmented": (
        *(series for zone in range(5) for series in (
            gauge(f'zonewise_zone_available{{node="n", resource="cpu", zone="{zone}"}}', 36, 9),
            steady(f'zonewise_zone_allocatable{{node="n", resource="cpu", zone="{zone}"}}', 36))),
    ),
    "ZonewiseSchedulerDown": (absent('zonewise_nodes{state="reported"}', 3),),
    "ZonewiseMispredictions": (
        Series('zonewise_mispredictions_total{reason="TopologyAffinityError"}', "_x20 1+1x89 90x99"),
    ),
    "ZonewiseSchedulerViewOld": (
        gauge('zonewise_watch_age_seconds{job="zonewise/zonewise-scheduler", resource="pods"}', 0, 90),
    ),
    "ZonewiseReportsStale": (
        gauge('zonewise_nodes{state="stale"}', 0, 2), steady('zonewise_nodes{state="reported"}', 9),
    ),
    "ZonewiseNodesWithoutReport": (gauge('zonewise_nodes{state="unreported"}', 0, 1),),
    "ZonewiseExtenderSlow": (
        counter('zonewise_extender_request_duration_seconds_bucket{verb="filter", le="0.05"}', 0, 60),
        counter('zonewise_extender_request_duration_seconds_bucket{verb="filter", le="1.0"}', 60, 60),
        counter('zonewise_extender_request_duration_seconds_bucket{verb="filter", le="+Inf"}', 60, 60),
    ),
    "ZonewiseSchedulerCertificateExpires": (
        gauge('zonewise_tls_certificate_expiry_timestamp_seconds{job="zonewise/zonewise-scheduler"}', 30 * DAY, DAY),
    ),
    "ZonewiseExtenderErrors": (counter('zonewise_extender_requests_total{verb="filter", code="500"}', 60),),
    "ZonewiseReportsDamaged": (gauge('zonewise_damaged_reports{kind="InvalidField"}', 0, 1),),
    "ZonewiseDisruptionBudgetsForbidden": (gauge("zonewise_disruption_budgets_forbidden", 0, 1),),
    "ZonewiseQueueWithoutLeader": (
        gauge('zonewise_leader{pod="a"}', 1, 0), steady('zonewise_leader{pod="b"}', 0),
        steady('zonewise_kueue_manages_queues{pod="a"}', 0),
    ),
    "ZonewiseQueueViewOld": (
        gauge('zonewise_watch_age_seconds{job="zonewise/zonewise-controller", resource="pods"}', 0, 90),
    ),
    "ZonewiseQueueBacklog": (steady("zonewise_inbox_messages", 3), gauge("zonewise_write_backlog", 1, 5000)),
    "ZonewiseQueueWritesRejected": (counter('zonewise_writes_total{purpose="admit", result="rejected"}', 1),),
    "ZonewiseQueuePassesSlow": (
        counter('kueue_admission_attempt_duration_seconds_bucket{le="1.0"}', 0, 60),
        counter('kueue_admission_attempt_duration_seconds_bucket{le="5.0"}', 60, 60),
        counter('kueue_admission_attempt_duration_seconds_bucket{le="+Inf"}', 60, 60),
    ),
    "ZonewiseClusterQueueInactive": (
        gauge('kueue_cluster_queue_status{cluster_queue="q", status="active"}', 1, 0),
        gauge('kueue_cluster_queue_status{cluster_queue="q", status="pending"}', 0, 1),
    ),
    "ZonewiseQueueObjectsInvalid": (gauge("zonewise_invalid_objects", 0, 2),),
    "ZonewiseReservationsLate": (
        Series("zonewise_reservation_error_seconds_count", "0x100 1x509"),
        Series('zonewise_reservation_error_seconds_bucket{le="600.0"}', "0x609"),
    ),
    "ZonewiseQueueEventsDropped": (counter("zonewise_dropped_events_total", 5),),
    "ZonewiseQueueCertificateExpires": (
        gauge('zonewise_tls_certificate_expiry_timestamp_seconds{job="zonewise/zonewise-controller"}', 30 * DAY, DAY),
    ),
}  # fmt: skip
"""Series for each alert. With them the alert fires at FIRING_AT, and neither before nor after the fault."""
RECOVERY = {"ZonewiseReservationsLate": "600m"}
"""Times at which alerts over longer windows have recovered; the other alerts have recovered at RECOVERED_AT."""


def promtool_tests(rules: list[str], alerts: list[str]) -> str:
    """Return a file for `promtool test rules` that checks at the three times whether each alert fires."""
    return yaml.safe_dump({
        "rule_files": rules,
        "evaluation_interval": "1m",
        "tests": [
            {
                "name": alert,
                "interval": "1m",
                "input_series": [{"series": series.name, "values": series.values} for series in CASES[alert]],
                "promql_expr_test": [
                    _expectation(alert, QUIET_AT, fires=False),
                    _expectation(alert, FIRING_AT, fires=True),
                    _expectation(alert, RECOVERY.get(alert, RECOVERED_AT), fires=False),
                ],
            }
            for alert in alerts
        ],
    })  # fmt: skip


def promql_tests(series: list[Series], at: str, expected: dict[str, float]) -> str:
    """Return a file for `promtool test rules` that checks the sum of each query's samples at a given time."""
    samples = [
        {"expr": f"sum({query})", "eval_time": at, "exp_samples": [{"labels": "{}", "value": value}]}
        for query, value in expected.items()
    ]
    inputs = [{"series": one.name, "values": one.values} for one in series]
    return yaml.safe_dump({"tests": [{"interval": "1m", "input_series": inputs, "promql_expr_test": samples}]})


def _expectation(alert: str, at: str, *, fires: bool) -> Json:
    expr = f'count(ALERTS{{alertname="{alert}", alertstate="firing"}})'
    return {"expr": expr, "eval_time": at, "exp_samples": [{"labels": "{}", "value": 1}] if fires else []}
