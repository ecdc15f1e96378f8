"""Which of what a report does not tell matters to a pod."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.admission.aligned_requests import pins_memory
from zonewise_scheduler.admission.cpumanager import guaranteed_cpus

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeKind
    from zonewise_scheduler.admission.pod import PodShape


def relevant_unknowns(kind: NodeKind, pod: PodShape) -> tuple[str, ...]:
    """Return why the answer to a pod may be wrong, as "nothing is known of ...".

    A subject that names CPUs or memory matters to pods that are given them exclusively by a static manager, whatever
    the node's is thought to be; any other to all that are given anything exclusively.
    """
    if not kind.unknown:
        return ()
    policies = kind.policies._replace(cpu="static", memory="Static")
    cpus = any(guaranteed_cpus(pod, one, policies) for one in pod.containers)
    memory = pins_memory(pod, policies)
    anything = cpus or memory or any(name in kind.device_indices for one in pod.containers for name, _ in one.devices)

    def matters(subject: str) -> bool:
        named = ("CPU" in subject, "memory" in subject.lower())
        return (named[0] and cpus) or (named[1] and memory) if any(named) else anything

    return tuple(f"nothing is known of {subject}" for subject in kind.unknown if matters(subject))
