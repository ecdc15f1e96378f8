"""Memory, threads and file descriptors of programs over their lives."""

from __future__ import annotations

import os
from typing import NamedTuple

import psutil


class ResourceSample(NamedTuple):
    """The resources that a process uses at one time."""

    at: float
    resident: int
    """Resident bytes."""
    threads: int
    descriptors: int
    """File descriptors without client connections, whose number the clients determine."""


class Growth(NamedTuple):
    """How much more a process uses in the last third of its life than in the first third after the warm-up.

    For memory, the maximum counts. For threads and descriptors, the minimum counts: requests come and go, but leaked
    ones are never returned.
    """

    seconds: float
    resident: int
    threads: int
    descriptors: int


class ResourceLog:
    """Samples of each life of a program: the time in which one process has one name."""

    def __init__(self) -> None:
        self._lives: list[tuple[str, list[ResourceSample]]] = []
        self._current: dict[int, tuple[str, list[ResourceSample]]] = {}
        """The current life of each process."""

    def sample(self, name: str, pid: int, now: float) -> None:
        """Add a sample; ignore a process that has ended. The name may contain the role, such as that of a leader."""
        try:
            sample = read_process(pid, now)
        except psutil.NoSuchProcess:
            return
        life = self._current.get(pid)
        if life is None or life[0] != name:
            life = self._current[pid] = (name, [])
            self._lives.append(life)
        life[1].append(sample)

    def growth(self, warm_up: float) -> dict[str, Growth]:
        """Return the growth of each program in its longest life, among those longer than three times the warm-up."""
        longest: dict[str, Growth] = {}
        for name, samples in self._lives:
            life = samples[-1].at - samples[0].at
            if life > 3 * warm_up and (name not in longest or life > longest[name].seconds):
                settled = [sample for sample in samples if sample.at >= samples[0].at + warm_up]
                longest[name] = _growth(settled, life)
        return longest


def _growth(samples: list[ResourceSample], life: float) -> Growth:
    third = max(1, len(samples) // 3)
    first, last = samples[:third], samples[-third:]

    return Growth(
        life,
        max(sample.resident for sample in last) - max(sample.resident for sample in first),
        min(sample.threads for sample in last) - min(sample.threads for sample in first),
        min(sample.descriptors for sample in last) - min(sample.descriptors for sample in first),
    )


def read_process(pid: int, now: float) -> ResourceSample:
    """Return the resources that a process uses now; raise psutil.NoSuchProcess if it has ended.

    Descriptors are listed before connections: one that a client closes in between is counted, but the number is never
    negative.
    """
    process = psutil.Process(pid)
    resident, threads = process.memory_info().rss, process.num_threads()
    try:
        descriptors = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
    except FileNotFoundError as error:
        raise psutil.NoSuchProcess(pid) from error
    connections = process.net_connections("tcp")
    served = {entry.laddr.port for entry in connections if entry.status == psutil.CONN_LISTEN}
    clients = {
        entry.fd for entry in connections if entry.status == psutil.CONN_ESTABLISHED and entry.laddr.port in served
    }
    return ResourceSample(now, resident, threads, len(descriptors - clients))
