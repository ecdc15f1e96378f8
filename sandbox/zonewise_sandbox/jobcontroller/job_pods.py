"""The pods of each Job, by the UID of the Job."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zonewise_sandbox.jobcontroller.types import JobPod

Key = tuple[str, str]


class JobPods:
    """An index of pods by their Jobs; thread-safe.

    The ownerReference of a pod contains the UID and the name of its Job. The key of the Job is the namespace and that
    name.
    """

    def __init__(self) -> None:
        """Create an empty index."""
        self._lock = threading.Lock()
        self._by_job: dict[Key, dict[str, JobPod]] = {}
        self.version = 0
        """The newest resource version of any recorded pod."""

    def record(self, old: JobPod | None, new: JobPod | None) -> list[Key]:
        """Record a change of a pod; return the keys of its Jobs."""
        with self._lock:
            if new is not None:
                self.version = max(self.version, int(new.metadata.resource_version or 0))
            keys = [pod.job_key for pod in (old, new) if pod is not None and pod.job_key is not None]
            if old is not None and old.job_key is not None:
                pods = self._by_job.get(old.job_key, {})
                pods.pop(old.metadata.uid, None)
                if not pods:
                    self._by_job.pop(old.job_key, None)
            if new is not None and new.job_key is not None:
                self._by_job.setdefault(new.job_key, {})[new.metadata.uid] = new
            return list(dict.fromkeys(keys))

    def pods_of(self, key: Key, uid: str) -> list[JobPod]:
        """Return the pods that a Job with this name and UID controls."""
        with self._lock:
            return [pod for pod in self._by_job.get(key, {}).values() if pod.job_uid == uid]

    def job_uids(self, key: Key) -> set[str]:
        """Return the UIDs of the Jobs of this name that control pods."""
        with self._lock:
            return {pod.job_uid for pod in self._by_job.get(key, {}).values()}
