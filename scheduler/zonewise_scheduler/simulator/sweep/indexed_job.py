"""A sweep as an Indexed Job (KEP-2214): the pod of index i does run i and writes the result to its termination message.

The name of the Job is a digest of everything that affects the results. The same command therefore names the same Job,
whose results are collected. Another command, or a file with other contents, names another Job.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Object = dict[str, Any]

SWEEP_LABEL = "zonewise.dev/sweep"
"""Label of the Job, its pods and its ConfigMap, with the name of the sweep."""
INDEX_ANNOTATION = "batch.kubernetes.io/job-completion-index"
INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
"""Variable that is set in each container of an Indexed Job (pkg/controller/job/indexed_job_utils.go)."""
INPUTS = "/inputs"
"""Directory in which pods find the files of the ConfigMap."""
MESSAGE_FILE = "/dev/termination-log"
"""The default of terminationMessagePath."""
MAX_INPUT_BYTES = 1 << 20
"""Maximum size of a ConfigMap (pkg/apis/core/validation/validation.go ValidateConfigMap: MaxSecretSize)."""
_RETRIES = 1
"""Retries of each index, since a node may fail."""
_MEMORY = "512Mi"
"""Memory request of a pod; a simulation of a million jobs uses 400 MB."""


class SweepJob(NamedTuple):
    """The work of the pods."""

    arguments: Sequence[str]
    """Arguments of `zonewise`; each pod adds its index."""
    runs: int
    parallelism: int
    image: str
    namespace: str
    files: Mapping[str, bytes]
    """Contents by path below INPUTS."""

    @property
    def name(self) -> str:
        """Return the name of all its objects."""
        digest = hashlib.sha256(json.dumps([*self.arguments, self.runs, self.image]).encode())
        for path, content in self.files.items():
            digest.update(path.encode() + hashlib.sha256(content).digest())
        return f"sweep-{digest.hexdigest()[:12]}"

    @property
    def config_map(self) -> Object | None:
        """Return the ConfigMap of the files; None if there are none."""
        if not self.files:
            return None
        binary = {_key(number): b64encode(content).decode() for number, content in enumerate(self.files.values())}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": self._metadata, "binaryData": binary}

    @property
    def job(self) -> Object:
        """Return the Job, which ends at the first index that fails twice."""
        spec = {
            "completionMode": "Indexed",
            "completions": self.runs,
            "parallelism": self.parallelism,
            "backoffLimitPerIndex": _RETRIES,
            "maxFailedIndexes": 0,
            "template": {"metadata": {"labels": {SWEEP_LABEL: self.name}}, "spec": self._pod_spec},
        }
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": self._metadata, "spec": spec}

    @property
    def _metadata(self) -> Object:
        return {"name": self.name, "namespace": self.namespace, "labels": {SWEEP_LABEL: self.name}}

    @property
    def _pod_spec(self) -> Object:
        container: Object = {
            "name": "simulate",
            "image": self.image,
            "args": [*self.arguments],
            "resources": {"requests": {"cpu": "1", "memory": _MEMORY}},
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            },
        }
        spec: Object = {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [container],
        }
        if self.files:
            items = [{"key": _key(number), "path": path} for number, path in enumerate(self.files)]
            container["volumeMounts"] = [{"name": "inputs", "mountPath": INPUTS, "readOnly": True}]
            spec["volumes"] = [{"name": "inputs", "configMap": {"name": self.name, "items": items}}]
        return spec


def _key(number: int) -> str:
    return f"input-{number}"
