"""`zonewise forecast`: the controller's response, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zonewise_common.cli.details import Detail
from zonewise_common.k8s.dates import utc_clock
from zonewise_scheduler.client.describe.description import Description
from zonewise_scheduler.client.describe.message_clauses import message_clauses
from zonewise_scheduler.client.time_text import parse_time, time_until

if TYPE_CHECKING:
    from collections.abc import Mapping


def describe_forecast(response: Mapping[str, Any], requests: str, now: float) -> tuple[Description, bool]:
    """Return the description of a forecast, and whether it contains a start time."""
    forecast: Mapping[str, Any] = response.get("forecast") or {}
    times = {name: parse_time(forecast.get(name)) for name in ("earliest", "likely", "latest")}
    is_known = times["likely"] is not None
    queue = f"LocalQueue {response.get('localQueue')}"
    if response.get("clusterQueue"):
        queue += f", ClusterQueue {response['clusterQueue']}"
    position = response.get("position")
    details = [Detail("requests", [requests]), Detail("queue", [queue])]
    if response.get("startsNow"):
        details.append(Detail("start", ["at once"], "good"))
    else:
        details.append(Detail("position", [f"number {position} in its ClusterQueue" if position else ""]))
        details += [Detail(name, [_time(time, now)]) for name, time in times.items() if is_known]
        details.append(Detail("start", ["" if is_known else _unknown(response)], "warning"))
        details.append(Detail("why", message_clauses(str(response.get("message") or ""))))
    return Description("A job that is not submitted", details, dict(response), ""), is_known


def _unknown(response: Mapping[str, Any]) -> str:
    if response.get("neverFits"):
        return "never with the present nodes and quotas"
    if not response.get("clusterQueue"):
        return "never"
    return "unknown: jobs before it declare no walltime, or are too many to simulate"


def _time(time: float | None, now: float) -> str:
    if time is None:
        return "unknown"
    return "now" if time <= now else f"{utc_clock(time, now)} ({time_until(time, now)})"
