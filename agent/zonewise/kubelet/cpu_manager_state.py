"""cpu_manager_state: the exclusive CPUs of containers (pkg/kubelet/cm/cpumanager/state/checkpoint.go)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zonewise.kubelet.checkpoint import UNKNOWN_POD, WHOLE_POD, CheckpointReader, ParsedCheckpoint
from zonewise.kubelet.types import CpuManagerState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zonewise_common.k8s.cpuset import CpuSet


def parse_cpu_manager_state(content: bytes, path: str) -> ParsedCheckpoint[CpuManagerState]:
    """Return the state in the file, in any of the four versions.

    - v1 (to 1.17): CPUs by container id; these entries belong to the pod UNKNOWN_POD.
    - v2: by pod UID and container.
    - v3 (gate PodLevelResourceManagers): also by pod UID only. That is then the pod's only entry, under the container
      WHOLE_POD, since it includes the CPUs of the pod's containers.
    - v4 (since 1.37): as v2, with the entries by pod UID in the text `data`.
    """
    file = CheckpointReader(path)
    document = file.document(content)
    if not document:
        return file.parsed(None)
    policy = file.text("policyName", document.get("policyName"))
    default = file.cpus("defaultCpuSet", document.get("defaultCpuSet"))
    entries = _container_cpus(file, document.get("entries"))
    for uid, entry in file.pod_entries(document):
        fields: Mapping[str, Any] = dict(file.entries(f"podEntries.{uid}", entry))
        cpus = file.cpus(f"podEntries.{uid}.cpuSet", fields.get("cpuSet", ""))
        if cpus is not None:
            entries[uid] = {WHOLE_POD: cpus}
    return file.parsed(None if policy is None or default is None else CpuManagerState(policy, default, entries))


def _container_cpus(file: CheckpointReader, value: object) -> dict[str, dict[str, CpuSet]]:
    entries: dict[str, dict[str, CpuSet]] = {}
    for name, entry in file.entries("entries", value):
        if isinstance(entry, str):
            entries.setdefault(UNKNOWN_POD, {}).update(_cpu_sets(file, "entries", {name: entry}))
        else:
            entries[name] = dict(_cpu_sets(file, f"entries.{name}", entry))
    return entries


def _cpu_sets(file: CheckpointReader, field: str, value: object) -> Iterator[tuple[str, CpuSet]]:
    for name, text in file.entries(field, value):
        cpus = file.cpus(f"{field}.{name}", text)
        if cpus is not None:
            yield name, cpus
