"""The steps of the demonstration: pods start and end."""

from __future__ import annotations

from typing import NamedTuple

from demo.machine import GPU
from zonewise_sandbox.kubelet import ContainerSpec, PodSpec

GIB = 1 << 30


class Step(NamedTuple):
    """A step."""

    text: str
    start: PodSpec | None = None
    stop: str = ""
    """The UID of a pod that ends."""


def pod(name: str, cpus: float, gpus: int, gib: int) -> PodSpec:
    """Return a Guaranteed pod of one container."""
    container = ContainerSpec("main", int(cpus * 1000), {"memory": gib * GIB}, {GPU: gpus} if gpus else {})
    return PodSpec("default", name, (container,), name)


def starts(name: str, cpus: float, gpus: int, gib: int) -> Step:
    """Return the start of a pod, described in words."""
    requests = [f"{cpus:g} CPUs", f"{gib} GiB", *([f"{gpus} GPUs"] if gpus else [])]
    return Step(f"{name} starts: {', '.join(requests)}", pod(name, cpus, gpus, gib))


def ends(name: str) -> Step:
    """Return the end of a pod."""
    return Step(f"{name} ends", stop=name)


STEPS = (
    starts("train-0", 12, 2, 24),
    starts("train-1", 12, 2, 24),
    starts("wide", 16, 4, 32),
    starts("web", 1.5, 0, 4),
    ends("train-0"),
    starts("prep", 4, 0, 8),
    starts("too-big", 40, 0, 8),
    ends("wide"),
    starts("both-zones", 36, 4, 40),
    ends("train-1"),
    ends("prep"),
    ends("web"),
    ends("both-zones"),
)
