"""cpu_manager_state: the CPUs that containers hold exclusively (pkg/kubelet/cm/cpumanager/state/checkpoint.go)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zonewise.kubelet.checkpoint import UNKNOWN_POD, WHOLE_POD, CheckpointReader, ParsedCheckpoint
from zonewise.kubelet.types import CpuManagerState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zonewise_common.k8s.cpuset import CpuSet


def parse_cpu_manager_state(content: bytes, path: str) -> ParsedCheckpoint[CpuManagerState]:
    """Return what the file says, in each of the three forms that kubelets have written.

    v1 (to 1.17): CPUs by container id; those entries are of the pod UNKNOWN_POD. v2: by pod UID and container. v3 (gate
    PodLevelResourceManagers): also by pod UID alone; that is then the pod's one entry, under the container WHOLE_POD,
    since what its containers have are parts of it.
    """
    file = CheckpointReader(path)
    document = file.document(content)
    if not document:
        return file.parsed(None)
    policy = file.text("policyName", document.get("policyName"))
    default = file.cpus("defaultCpuSet", document.get("defaultCpuSet"))
    entries = _containers(file, document.get("entries"))
    for uid, entry in file.entries("podEntries", document.get("podEntries")):
        fields: Mapping[str, Any] = dict(file.entries(f"podEntries.{uid}", entry))
        cpus = file.cpus(f"podEntries.{uid}.cpuSet", fields.get("cpuSet", ""))
        if cpus is not None:
            entries[uid] = {WHOLE_POD: cpus}
    return file.parsed(None if policy is None or default is None else CpuManagerState(policy, default, entries))


def _containers(file: CheckpointReader, value: object) -> dict[str, dict[str, CpuSet]]:
    found: dict[str, dict[str, CpuSet]] = {}
    for name, entry in file.entries("entries", value):
        if isinstance(entry, str):
            found.setdefault(UNKNOWN_POD, {}).update(_sets(file, "entries", {name: entry}))
        else:
            found[name] = dict(_sets(file, f"entries.{name}", entry))
    return found


def _sets(file: CheckpointReader, field: str, value: object) -> Iterator[tuple[str, CpuSet]]:
    for name, text in file.entries(field, value):
        cpus = file.cpus(f"{field}.{name}", text)
        if cpus is not None:
            yield name, cpus
