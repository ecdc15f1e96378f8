"""The policies of a Job: which pod failures count, and which successes suffice.

Sources: pkg/controller/job/pod_failure_policy.go (matchPodFailurePolicy), success_policy.go (matchSuccessPolicy).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_sandbox.jobcontroller.indexes import parse_indexes

if TYPE_CHECKING:
    from zonewise_sandbox.jobcontroller.types import ContainerStatus, JobPod, JobSpec, Object


class Failure(NamedTuple):
    """The verdict of a pod failure policy on a failed pod."""

    counts: bool = True
    """Whether it counts towards backoffLimit."""
    action: str = ""
    """The action of the matching rule; "" if none matches."""
    message: str = ""
    """The message of FailJob."""


def judge_failure(policy: Object | None, pod: JobPod) -> Failure:
    """Return the verdict of the first rule that matches a failed pod."""
    for number, rule in enumerate((policy or {}).get("rules") or ()):
        action = rule["action"]
        cause = _matching_cause(rule, pod)
        if cause:
            message = f"{cause} matching {action} rule at index {number}" if action == "FailJob" else ""
            return Failure(action != "Ignore", action, message)
    return Failure()


def success_message(spec: JobSpec, succeeded: set[int]) -> str:
    """Return the message of the first success policy rule that is met; "" if none is."""
    for number, rule in enumerate((spec.success_policy or {}).get("rules") or ()):
        text, count = rule.get("succeededIndexes"), rule.get("succeededCount")
        needed = parse_indexes(text, spec.completions or 0) if text is not None else None
        if succeeded and _is_met(needed, count, succeeded):
            return f"Matched rules at index {number}"
    return ""


def _is_met(needed: set[int] | None, count: int | None, succeeded: set[int]) -> bool:
    if needed is None:
        return count is not None and len(succeeded) >= count
    met = len(needed & succeeded)
    return bool(needed) and (met == len(needed) or (count is not None and met >= count))


def _matching_cause(rule: Object, pod: JobPod) -> str:
    """Return the cause for which a rule matches, worded as in messages; "" if it does not match."""
    name = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if rule.get("onExitCodes") is not None:
        container = _matching_container(rule["onExitCodes"], pod)
        if container is None or container.state.terminated is None:
            return ""
        return f"Container {container.name} for pod {name} failed with exit code {container.state.terminated.exit_code}"
    for condition in pod.status.conditions:
        for pattern in rule.get("onPodConditions") or ():
            if (condition.type, condition.status) == (pattern["type"], pattern["status"]):
                return f"Pod {name} has condition {condition.type}"
    return ""


def _matching_container(requirement: Object, pod: JobPod) -> ContainerStatus | None:
    named, values = requirement.get("containerName"), requirement["values"]
    for container in (*pod.status.container_statuses, *pod.status.init_container_statuses):
        end = container.state.terminated
        if end is None or end.exit_code == 0 or named not in (None, container.name):
            continue
        if (end.exit_code in values) == (requirement["operator"] == "In"):
            return container
    return None
