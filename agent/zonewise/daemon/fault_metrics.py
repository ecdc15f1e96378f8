"""Faults of the hardware as Prometheus metrics, from the last snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client.core import Metric

    from zonewise.daemon.status import Snapshot

_SEVERITIES = ("note", "degraded", "failed")


class FaultMetrics:
    """A collector of prometheus_client; it has no samples if health is off."""

    def __init__(self, snapshot: Callable[[], Snapshot]) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        """Return the metrics of the last snapshot."""
        snapshot = self._snapshot()
        labels = ("kind", "device", "rule", "verdict", "severity")
        active = GaugeMetricFamily("zonewise_hardware_fault", "1 for each active hardware fault.", labels=labels)
        for fault in snapshot.faults or ():
            sign = fault.sign
            values = (sign.device.kind, sign.device.name, sign.rule, sign.verdict.value, sign.severity.name.lower())
            active.add_metric(values, 1)
        yield active
        text = "Active hardware faults, by severity; 0 if there are none."
        total = GaugeMetricFamily("zonewise_hardware_faults", text, labels=("severity",))
        for severity in _SEVERITIES if snapshot.faults is not None else ():
            total.add_metric((severity,), sum(f.sign.severity.name.lower() == severity for f in snapshot.faults or ()))
        yield total
        counts = CounterMetricFamily(
            "zonewise_hardware_fault_events",
            "Hardware faults that were raised, and events that repeated them.",
            labels=("device", "rule", "verdict"),
        )
        for values, count in snapshot.fault_counts.items():
            counts.add_metric(values, count)
        yield counts
