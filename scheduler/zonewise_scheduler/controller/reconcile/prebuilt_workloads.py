"""The jobs that name a Workload, by this Workload, which need not exist yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.controller.workloads.prebuilt import prebuilt_workload_key

if TYPE_CHECKING:
    from collections.abc import Collection

    from zonewise_scheduler.controller.types import Json, ObjectKey


class PrebuiltWorkloads:
    """The observed jobs that name their Workload."""

    def __init__(self) -> None:
        self._jobs: dict[str, dict[ObjectKey, None]] = {}
        self._workloads: dict[ObjectKey, str] = {}

    def change(self, job_key: ObjectKey, job: Json | None) -> None:
        """Record a job that has changed; None: it was deleted."""
        workload = "" if job is None else prebuilt_workload_key(job)
        before = self._workloads.pop(job_key, "")
        if before:
            del self._jobs[before][job_key]
            if not self._jobs[before]:
                del self._jobs[before]
        if workload:
            self._workloads[job_key] = workload
            self._jobs.setdefault(workload, {})[job_key] = None

    def jobs_of(self, workload: str) -> Collection[ObjectKey]:
        """Return the jobs that name a Workload; `workload`: its namespace and name."""
        return self._jobs.get(workload, ())
