"""Faults as text and as JSON, each with its verdict, its source, its rule and its evidence."""

from __future__ import annotations

import textwrap
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise.health.types import Severity
from zonewise_common.cli.table import Column, make_table, render_table
from zonewise_common.cli.terminal import Terminal, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise.health.types import Fault

_COLUMNS = tuple(map(Column, ("DEVICE", "STATE", "VERDICT", "RULE", "TIMES", "LAST")))
_INDENT = 12


class HealthReport(NamedTuple):
    """The content of `zonewise health`."""

    faults: tuple[Fault, ...]
    """Active faults, and conditions that are present now but may pass."""
    silent: tuple[str, ...]
    """Sources that could not be read; each is a sentence."""
    baseline: bool
    """Whether there is a baseline to compare with."""

    @property
    def is_healthy(self) -> bool:
        """Return whether there are no faults except notes."""
        return all(fault.sign.severity is Severity.NOTE for fault in self.faults)


def render_report(report: HealthReport, width: int) -> str:
    """Return the report as text with lines of at most `width` columns, except for longer words."""
    faults = sorted(report.faults, key=lambda fault: (-fault.sign.severity, -fault.last, fault.key))
    lines = [_headline(report)]
    if faults:
        lines += ["", render_table(make_table(_COLUMNS, map(_row, faults)), Terminal(width)).rstrip()]
    for fault in faults:
        lines += ["", f"{fault.sign.device} {fault.sign.rule}: {fault.sign.message}", *_details(fault, width)]
    if not report.baseline:
        lines += ["", "no baseline: missing devices and resources cannot be detected"]
    lines += [f"not read: {printable(reason)}" for reason in report.silent]
    return "\n".join(lines) + "\n"


def report_to_json(report: HealthReport) -> dict[str, Any]:
    """Return the report as a JSON document; times are RFC 3339, in UTC."""
    return {
        "healthy": report.is_healthy,
        "baseline": report.baseline,
        "notRead": list(report.silent),
        "faults": [fault_to_json(fault) for fault in report.faults],
    }


def fault_to_json(fault: Fault) -> dict[str, Any]:
    """Return a fault as a JSON object."""
    sign = fault.sign
    return {
        "device": {"kind": sign.device.kind, "name": sign.device.name},
        "rule": sign.rule,
        "verdict": sign.verdict.value,
        "severity": sign.severity.name.lower(),
        "confirmed": fault.active,
        "message": sign.message,
        "source": sign.source,
        "basis": sign.basis,
        "evidence": list(sign.evidence),
        "disagreement": sign.disagreement or None,
        "event": sign.event_at is not None,
        "first": utc(fault.first),
        "last": utc(fault.last),
        "occurrences": fault.occurrences,
        "clearing": sign.clearing.value,
        "pods": [{"namespace": pod.namespace, "name": pod.pod, "container": pod.container} for pod in fault.pods],
    }


def utc(time: float) -> str:
    """Return a time with a resolution of a second."""
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _headline(report: HealthReport) -> str:
    if not report.faults:
        return "healthy: no fault"
    counts = ", ".join(
        f"{number} {severity.name.lower()}"
        for severity in (Severity.FAILED, Severity.DEGRADED, Severity.NOTE)
        if (number := sum(fault.sign.severity is severity for fault in report.faults))
    )
    return f"{'healthy' if report.is_healthy else 'faulty'}: {counts}"


def _row(fault: Fault) -> tuple[str, ...]:
    sign = fault.sign
    state = sign.severity.name.lower() if fault.active else "suspected"
    times = str(fault.occurrences) if sign.event_at is not None else "-"
    last = utc(fault.last) if sign.event_at is not None else "now"
    return str(sign.device), state, sign.verdict.value, sign.rule, times, last


def _details(fault: Fault, width: int) -> Iterator[str]:
    sign = fault.sign
    facts = [
        ("source", sign.source), ("rule", sign.basis), *(("evidence", text) for text in sign.evidence),
        ("note", sign.disagreement), *(("pod", str(pod)) for pod in fault.pods),
    ]  # fmt: skip
    for name, text in facts:
        if text:
            yield from textwrap.wrap(
                printable(text), max(width, 2 * _INDENT), initial_indent=f"  {name:{_INDENT - 2}}",
                subsequent_indent=" " * _INDENT, break_long_words=False, break_on_hyphens=False,
            )  # fmt: skip
