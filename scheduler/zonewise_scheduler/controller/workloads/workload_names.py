"""Names of Workloads (pkg/controller/jobframework/workload_names.go)."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zonewise_common.kube.resources import Resource

_HASH_LENGTH = 5
_MAX_LENGTH = 63
"""Maximum length of a label value, since a Workload's name is also used as one."""
_KUEUE_MAX_LENGTH = 253
"""Maximum length of Kueue's names while its gate ShortWorkloadNames is off."""


def workload_name(resource: Resource, name: str, uid: str) -> str:
    """Return the name of a job's Workload: kind, name, and a hash of kind, name and UID, as in Kueue.

    A job that is deleted and created again under the same name gets another Workload.
    """
    return _hashed_name(resource, name, uid, _MAX_LENGTH)


def slice_name(resource: Resource, name: str, uid: str, generation: int) -> str:
    """Return the name of a slice of an elastic job: it includes the generation of the job, as in Kueue."""
    return _hashed_name(resource, name, uid, _MAX_LENGTH, str(generation))


def adopted_workload_name(resource: Resource, name: str, uid: str) -> str:
    """Return the name of the Workload that Kueue created for a job. It may be longer than a label value."""
    return _hashed_name(resource, name, uid, _KUEUE_MAX_LENGTH)


def _hashed_name(resource: Resource, name: str, uid: str, length: int, *extra: str) -> str:
    identity = "\n".join((resource.kind, resource.group, name, uid, *extra))
    digest = hashlib.sha1(identity.encode(), usedforsecurity=False).hexdigest()
    prefix = f"{resource.kind.lower()}-{name}"[: length - 1 - _HASH_LENGTH]
    return f"{prefix}-{digest[:_HASH_LENGTH]}"
