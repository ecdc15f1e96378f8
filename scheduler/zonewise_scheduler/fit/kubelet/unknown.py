"""Which of what a report does not tell matters to a pod."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.fit.kubelet.asks import pins_memory
from zonewise_scheduler.fit.kubelet.cpus import cpu_request

if TYPE_CHECKING:
    from zonewise_scheduler.fit.model.node import NodeKind
    from zonewise_scheduler.fit.model.pod import PodShape


def unknown_to(kind: NodeKind, pod: PodShape) -> tuple[str, ...]:
    """Return why the answer to a pod may be wrong, as "nothing is known of ...".

    A subject that names CPUs or memory matters to pods that are given them exclusively by a static manager, whatever
    the node's is thought to be; any other to all that are given anything exclusively.
    """
    if not kind.unknown:
        return ()
    policies = kind.policies._replace(cpu="static", memory="Static")
    cpus = any(cpu_request(pod, one, policies) for one in pod.containers)
    memory = pins_memory(pod, policies)
    anything = cpus or memory or any(name in kind.classes for one in pod.containers for name, _ in one.devices)

    def matters(subject: str) -> bool:
        named = ("CPU" in subject, "memory" in subject.lower())
        return (named[0] and cpus) or (named[1] and memory) if any(named) else anything

    return tuple(f"nothing is known of {subject}" for subject in kind.unknown if matters(subject))
