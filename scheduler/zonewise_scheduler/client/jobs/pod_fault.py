"""The hardware fault that hit the pods of a job, from their conditions, or from Events if a pod is deleted.

The node's agent writes both (agent/zonewise/objects/hardware_faults.py). The status of the condition is the verdict;
its message contains the device and the time of the fault.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.k8s.dates import utc_clock
from zonewise_common.k8s.fields import FieldReader
from zonewise_common.k8s.hardware_conditions import AGENT_COMPONENT, NODE_CONDITIONS, POD_CONDITION
from zonewise_common.phrases import first_names
from zonewise_scheduler.client.time_text import format_time, parse_time, short_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from zonewise_scheduler.client.jobs.job_facts import JobFacts

MAX_LINES = 6
"""Maximum number of sentences; the earliest faults come first."""
_CONDITION_MESSAGE = re.compile(r"(?P<text>.*?)(?: \((?P<device>[^()]+)\))?; verdict (?P<verdict>\w+); at (?P<at>\S+Z)")
_EVENT_MESSAGE = re.compile(r"(?P<device>\S+(?: \S+)?): (?P<text>.*?); verdict: (?P<verdict>\w+)(?:;|$)")
_VERDICTS = {
    "hardware": "the hardware",
    "driver": "the driver or the firmware",
    "application": "the program, not the hardware",
    "unknown": "unknown: the hardware or the program",
}
_OF_STATUS = {"True": "hardware", "False": "application"}
_RANDOM = "[bcdfghjklmnpqrstvwxz2456789]{5}"
"""The suffix of a generated name (apimachinery pkg/util/rand)."""


class PodFault(NamedTuple):
    """A fault on a device that a pod held. Times are seconds since 1970, or None if unknown."""

    pod: str
    node: str
    verdict: str
    """hardware, driver, application or unknown."""
    reason: str
    """The rule, such as XID79."""
    text: str
    """One sentence without a full stop."""
    device: str = ""
    at: float | None = None
    ended_at: float | None = None
    """When the pod's first container failed."""
    exit_code: int | None = None

    def document(self) -> dict[str, Any]:
        """Return the JSON document."""
        return {
            "pod": self.pod,
            "node": self.node or None,
            "verdict": self.verdict,
            "reason": self.reason,
            "message": self.text,
            "device": self.device or None,
            "time": format_time(self.at),
            "podEndedAt": format_time(self.ended_at),
            "exitCode": self.exit_code,
        }


def read_pod_fault(pod: Mapping[str, Any]) -> PodFault | None:
    """Return the fault in the conditions of a pod; None if there is none."""
    reader = FieldReader(pod, "", [])
    status = reader.child("status")
    condition = next((one for one in status.children("conditions") if one.text("type") == POD_CONDITION), None)
    if condition is None:
        return None
    message = condition.text("message")
    match = _CONDITION_MESSAGE.match(message)
    ended_at, exit_code = _first_failure(status)
    return PodFault(
        reader.child("metadata").text("name"),
        reader.child("spec").text("nodeName"),
        match["verdict"] if match else _OF_STATUS.get(condition.text("status"), "unknown"),
        condition.text("reason"),
        match["text"] if match else message,
        (match["device"] or "") if match else "",
        parse_time(match["at"]) if match else condition.time("lastTransitionTime"),
        ended_at,
        exit_code,
    )


def read_event_fault(event: Mapping[str, Any]) -> PodFault | None:
    """Return the fault in an Event that the agent wrote about a pod; None for other Events."""
    reader = FieldReader(event, "", [])
    involved, source = reader.child("involvedObject"), reader.child("source")
    if involved.text("kind") != "Pod" or source.text("component") != AGENT_COMPONENT:
        return None
    match = _EVENT_MESSAGE.match(reader.text("message"))
    if match is None:
        return None
    return PodFault(
        involved.text("name"),
        source.text("host"),
        match["verdict"],
        reader.text("reason"),
        match["text"],
        match["device"],
        reader.time("lastTimestamp"),
    )


def job_faults(pods: Iterable[Mapping[str, Any]], events: Iterable[Mapping[str, Any]]) -> list[PodFault]:
    """Return the faults on devices of pods, earliest first; Events are used only for pods without a condition."""
    faults = [fault for pod in pods if (fault := read_pod_fault(pod)) is not None]
    known = {fault.pod for fault in faults}
    by_event = [fault for event in events if (fault := read_event_fault(event)) is not None and fault.pod not in known]
    return sorted([*faults, *by_event], key=lambda fault: (fault.at is None, fault.at or 0.0, fault.pod))


def fault_lines(faults: Sequence[PodFault], now: float) -> list[str]:
    """Return a sentence for each fault; pods hit by the same fault share a sentence."""
    groups: dict[tuple[str, ...], list[PodFault]] = {}
    for fault in faults:
        groups.setdefault((fault.node, fault.device, fault.reason, fault.verdict), []).append(fault)
    lines = [_sentence(group, now) for group in groups.values()]
    more = len(lines) - MAX_LINES
    return [*lines[:MAX_LINES], *([f"and {more} more faults: -o json lists all"] if more > 0 else [])]


def without_fault(nodes: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield known facts about the hardware of nodes whose pods failed without a fault."""
    watched = sorted(name for name, node in nodes.items() if _publishes_health(node))
    others = sorted(name for name in nodes if name not in watched)
    if watched:
        yield f"none on a device of its pods, according to the agent of {first_names(watched)}"
    if others:
        yield f"unknown on {first_names(others)}: its agent publishes no health (health.mode)"


def pod_name_pattern(job: JobFacts) -> re.Pattern[str]:
    """Return a pattern for the names of a job's pods, including deleted ones.

    A Job's pod is NAME-RANDOM or NAME-INDEX-RANDOM, a JobSet's NAME-POD_SET-JOB-INDEX-RANDOM, a training operator's
    NAME-POD_SET-INDEX.
    """
    name = re.escape(job.name)
    pod_sets = "|".join(re.escape(pod_set) for pod_set, _, _ in job.requests) or "(?!)"
    return re.compile(rf"{name}-(?:(?:(?:{pod_sets})-\d+-)?(?:\d+-)?{_RANDOM}|(?:{pod_sets})-\d+)")


def _sentence(group: Sequence[PodFault], now: float) -> str:
    first = group[0]
    device = f" ({first.device})" if first.device else ""
    where = f" on {first.node}" if first.node else ""
    at = f" at {utc_clock(first.at, now)}" if first.at is not None else ""
    return f"{_VERDICTS.get(first.verdict, first.verdict)}: {first.text}{device}{where}{at}, {_pods(group)}"


def _pods(group: Sequence[PodFault]) -> str:
    first = min(group, key=lambda fault: (fault.ended_at is None, fault.ended_at or 0.0, fault.pod))
    others = f" and {len(group) - 1} other pod{'s' if len(group) > 2 else ''}" if len(group) > 1 else ""
    if first.at is None or first.ended_at is None:
        return f"while pod {first.pod}{others} held it"
    seconds = first.ended_at - first.at
    when = f"{short_duration(abs(seconds))} {'before' if seconds >= 0 else 'after'}"
    code = f" with exit code {first.exit_code}" if first.exit_code is not None else ""
    return f"{when} pod {first.pod}{others} ended{code}"


def _first_failure(status: FieldReader) -> tuple[float | None, int | None]:
    """Return when the first container failed, and its exit code."""
    ended = [one.child("state").child("terminated") for one in status.children("containerStatuses")]
    failed = [
        (at, one.number("exitCode", 0))
        for one in ended
        if one.obj and one.number("exitCode", 0) and (at := one.time("finishedAt")) is not None
    ]
    return min(failed, default=(None, None), key=lambda entry: entry[0])


def _publishes_health(node: Mapping[str, Any]) -> bool:
    conditions = FieldReader(node, "", []).child("status").children("conditions")
    return any(condition.text("type") in NODE_CONDITIONS for condition in conditions)
