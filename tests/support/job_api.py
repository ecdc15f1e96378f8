"""A model of the API server's rules for batch/v1 Jobs, and of the Job controller's steps on one Job.

pkg/registry/batch/job/strategy.go, pkg/apis/batch/validation/validation.go, pkg/controller/job/job_controller.go.
"""

from __future__ import annotations

from typing import Any

from support.json_copy import json_copy
from support.json_edits import without_absent_fields
from zonewise_sandbox.apiserver.patches.merge_patch import merge_patch

Json = dict[str, Any]

MUTABLE = {"labels", "annotations", "nodeSelector", "tolerations", "schedulingGates"}


class JobRejected(Exception):
    """Raised when the API server rejects a write."""


class JobApi:
    """One Job on a server. `clears_start_time`: the server is Kubernetes 1.36 or later (KEP-5440)."""

    def __init__(self, job: Json, *, clears_start_time: bool, stop_steps: int = 1) -> None:
        """Set the Job; `stop_steps`: the number of Job controller steps in which its pods terminate."""
        self.job = json_copy(job)
        self.job.setdefault("status", {})
        self.clears_start_time = clears_start_time
        self.writes = 0
        self.has_ready_pods = True
        """Whether the Job's pods become ready."""
        self._stop_steps = stop_steps
        self._stop_steps_left = 0

    def patch(self, body: Json, subresource: str = "") -> None:
        """Apply a merge patch, or raise JobRejected if the validation rules reject it."""
        changed: Any = merge_patch(json_copy(self.job), json_copy(body))
        if subresource == "status":
            assert set(body) == {"status"}
            if not self.job["spec"].get("suspend") and changed["status"].get("startTime") != self.start_time:
                raise JobRejected("startTime: field is immutable for unsuspended job once set")
        else:
            assert "status" not in body
            if without_absent_fields(changed["spec"]["template"]) != without_absent_fields(
                self.job["spec"]["template"]
            ):
                if not self.is_template_mutable:
                    raise JobRejected("spec.template: field is immutable")
                if _fixed_part(changed["spec"]["template"]) != _fixed_part(self.job["spec"]["template"]):
                    raise JobRejected("spec.template: another field changes")
        self.job = changed
        self.writes += 1

    @property
    def start_time(self) -> str | None:
        return self.job["status"].get("startTime")

    @property
    def is_template_mutable(self) -> bool:
        suspended, status = bool(self.job["spec"].get("suspend")), self.job["status"]
        if not self.clears_start_time:
            return suspended and self.start_time is None
        return suspended and (self.start_time is None or self.is_marked_suspended) and not status.get("active")

    @property
    def is_marked_suspended(self) -> bool:
        conditions = self.job["status"].get("conditions", ())
        return any(item["type"] == "Suspended" and item["status"] == "True" for item in conditions)

    def sync(self) -> bool:
        """Run one step of the Job controller; return whether it changed anything or pods are still terminating."""
        before = json_copy(self.job)
        suspended, status = bool(self.job["spec"].get("suspend")), self.job["status"]
        if status.get("terminating"):
            self._stop_steps_left -= 1
            if self._stop_steps_left > 0:
                return True
            status["terminating"] = 0
        elif suspended and status.get("active"):
            status["terminating"], status["active"], status["ready"] = status["active"], 0, 0
            self._stop_steps_left = self._stop_steps
            self._mark_suspended(suspended=True)
        elif suspended:
            self._mark_suspended(suspended=True)
        else:
            self._mark_suspended(suspended=False)
            if self.start_time is None:
                status["startTime"] = "2026-01-01T00:00:00Z"
            status["active"] = self.job["spec"].get("parallelism", 1)
            status["ready"] = status["active"] if self.has_ready_pods else 0
        return self.job != before

    def _mark_suspended(self, *, suspended: bool) -> None:
        if self.is_marked_suspended == suspended:
            return
        status = self.job["status"]
        status["conditions"] = [{"type": "Suspended", "status": str(suspended), "message": ""}]
        if not suspended:
            status["startTime"] = "2026-01-01T00:00:00Z"
        elif self.clears_start_time:
            status["startTime"] = None


def pruned_template(job: Json) -> Json:
    """Return a job's pod template without empty fields."""
    return without_absent_fields(job["spec"]["template"])


def _fixed_part(template: Json) -> Json:
    return without_absent_fields(
        {part: {key: item for key, item in template.get(part, {}).items() if key not in MUTABLE} for part in template}
    )
