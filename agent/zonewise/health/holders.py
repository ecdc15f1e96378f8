"""Which pods held a device, and when. An event belongs to the pod that held the device at that time, not to a later
one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from zonewise.health.types import MAX_PODS, MIG, DeviceId, PodName

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

RETENTION = 3600.0
"""Seconds for which an ended pod is remembered. A line of the kernel log arrives within milliseconds. After a restart
the agent reads it within minutes."""
MAX_HOLDERS = 2 * MAX_PODS
"""Maximum number of containers of one device that hold it, and of those that have ended. For a shared GPU, those that
have held it longest and those that ended last are kept."""
MAX_GAP = 180.0
"""Seconds between two observations above which it is not known when in between a pod ended."""
_SUFFIX = re.compile(r"-(?:\d{1,5}|[bcdfghjklmnpqrstvwxz2456789]{5,10})")
"""Suffixes that controllers append to a workload's name: indexes, and the random letters and hashes of apimachinery
pkg/util/rand."""


class Holder(NamedTuple):
    """A container that held a device."""

    pod: PodName
    since: float
    until: float | None = None
    """End of holding; None if the container still holds the device."""


Holders = dict[DeviceId, tuple[Holder, ...]]


def observe_holders(
    holders: Mapping[DeviceId, tuple[Holder, ...]],
    held: Mapping[DeviceId, Iterable[PodName]],
    now: float,
    last: float,
) -> Holders:
    """Return the holders after an observation of which containers hold which devices; `last` is the time of the
    previous one.

    A pod that has ended since counts as holding until now. After a long gap it counts until the last observation: later
    events may belong to another pod.
    """
    end = now if now - last <= MAX_GAP else last
    observed: Holders = {}
    for device in [*holders, *(device for device in held if device not in holders)]:
        current = frozenset(held.get(device, ()))
        known = [
            holder._replace(until=end) if holder.until is None and holder.pod not in current else holder
            for holder in holders.get(device, ())
        ]
        continuing = {holder.pod for holder in known if holder.until is None}
        known += [Holder(pod, now) for pod in sorted(current - continuing)]
        ended = [holder for holder in known if holder.until is not None and now - holder.until <= RETENTION]
        running = [holder for holder in known if holder.until is None]
        if ended or running:
            observed[device] = (*ended[-MAX_HOLDERS:], *running[:MAX_HOLDERS])
    return observed


def holders_at(
    holders: Mapping[DeviceId, tuple[Holder, ...]], device: DeviceId, at: float, instance: str = ""
) -> tuple[Holder, ...]:
    """Return the containers that held a device at a time.

    With an instance of a GPU (see DeviceEvent), containers that held only other MIG devices of the GPU are left out.
    """
    unaffected = _holders_of_other_instances(holders, device, at, instance) if instance else frozenset[PodName]()
    return tuple(holder for holder in holders.get(device, ()) if _held_at(holder, at) and holder.pod not in unaffected)[
        :MAX_PODS
    ]


def _holders_of_other_instances(
    holders: Mapping[DeviceId, tuple[Holder, ...]], gpu: DeviceId, at: float, instance: str
) -> frozenset[PodName]:
    affected: set[PodName] = set()
    others: set[PodName] = set()
    for device, known in holders.items():
        if device.kind == MIG and device.name.startswith(f"{gpu.name}/"):
            is_affected = f"{device.name}/".startswith(f"{gpu.name}/{instance}/")
            (affected if is_affected else others).update(holder.pod for holder in known if _held_at(holder, at))
    return frozenset(others - affected)


def _held_at(holder: Holder, at: float) -> bool:
    return holder.since <= at and (holder.until is None or at <= holder.until)


def current_holders(holders: Mapping[DeviceId, tuple[Holder, ...]], device: DeviceId) -> tuple[Holder, ...]:
    """Return the containers that hold a device now."""
    return tuple(holder for holder in holders.get(device, ()) if holder.until is None)[:MAX_PODS]


def workload_name(pod: PodName) -> str:
    """Return the name of the workload that a pod likely belongs to: its name without the suffixes of controllers.

    Pods of one Job run one program, so they count as one when a GPU is suspected.
    """
    name = pod.pod
    while (match := re.search(rf"{_SUFFIX.pattern}$", name)) and match.start() > 0:
        name = name[: match.start()]
    return f"{pod.namespace}/{name}"
