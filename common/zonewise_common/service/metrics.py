"""Metrics that long-running programs share: certificates, rejected clients, failed requests, and ages of watches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from prometheus_client import Metric

    from zonewise_common.service.authorizer import Authorizer
    from zonewise_common.service.tls import Certificates

_REJECTIONS = {401: "unauthenticated", 403: "forbidden", 429: "rate_limited", 503: "unavailable"}
"""An Authorizer's reasons for rejections, by HTTP status."""


class ServiceMetrics(Collector):
    """The metrics of one program, which are read when they are collected."""

    def __init__(self, request_failures: Callable[[], Mapping[tuple[str, str], int]]) -> None:
        """Create the metrics from a function that returns the counts of Client.request_failures()."""
        self._request_failures = request_failures
        self._certificates: dict[str, Certificates] = {}
        self._authorizer: Authorizer | None = None

    def add_certificates(self, certificates: Certificates | None) -> None:
        """Export when certificates expire; None means a server without TLS."""
        if certificates is not None:
            self._certificates[certificates.file] = certificates

    def add_authorizer(self, authorizer: Authorizer | None) -> None:
        """Export the number of rejected clients; None means a server that reviews no tokens."""
        self._authorizer = authorizer

    def collect(self) -> Iterator[Metric]:
        """Return the metrics."""
        yield self._expiries()
        failures = CounterMetricFamily(
            "zonewise_api_request_failures",
            "Requests to the API server that failed and may be repeated, by method and reason: 429, 5xx, connection.",
            labels=["method", "reason"],
        )
        for labels, count in self._request_failures().items():
            failures.add_metric(labels, count)
        yield failures
        rejections = CounterMetricFamily(
            "zonewise_token_rejections",
            "Requests that were rejected because of their token.",
            labels=["reason"],
        )
        for status, count in (self._authorizer.rejections if self._authorizer is not None else {}).items():
            rejections.add_metric([_REJECTIONS[status]], count)
        yield rejections

    def _expiries(self) -> Metric:
        expiries = GaugeMetricFamily(
            "zonewise_tls_certificate_expiry_timestamp_seconds",
            "Earliest expiry of the certificates in the server's chain, in seconds since 1970.",
            labels=["file"],
        )
        for file, certificates in self._certificates.items():
            expiry = certificates.expiry()
            if expiry is not None:
                expiries.add_metric([file], expiry)
        return expiries


class WatchAges(Collector):
    """The age of each watch."""

    def __init__(self, ages: Callable[[], Mapping[str, float]]) -> None:
        """Create the metric; `ages` returns seconds by resource."""
        self._ages = ages

    def collect(self) -> Iterator[Metric]:
        """Return the metrics."""
        ages = GaugeMetricFamily(
            "zonewise_watch_age_seconds",
            "Seconds since the copy of a resource was last known to be current. It is 0 while the watch is open and "
            "delivers an event or a bookmark at least every 75 s.",
            labels=["resource"],
        )
        for resource, age in self._ages().items():
            ages.add_metric([resource], age)
        yield ages
