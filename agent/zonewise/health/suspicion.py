"""A GPU is suspected if different workloads have the same program error on it.

One workload proves nothing: a program with a bug fails on every GPU that it gets, and its Job repeats it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise.health.holders import holders_at, workload_name
from zonewise.health.state import MAX_HITS, ApplicationHit
from zonewise.health.types import Clearing, Severity, Sign, Verdict
from zonewise.health.xid_catalog import REPEATED_APPLICATION_XIDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zonewise.health.holders import Holders
    from zonewise.health.types import DeviceId


class Suspicion(NamedTuple):
    """The threshold at which a GPU is suspected."""

    workloads: int = 2
    """Number of different workloads; 0 disables suspicion."""
    window: float = 86400.0
    """Seconds within which they count."""


SUSPICION = Suspicion()
_CODES = {f"xid-{code}": code for code in REPEATED_APPLICATION_XIDS}


def note_hits(
    hits: tuple[ApplicationHit, ...], events: Iterable[Sign], holders: Holders, now: float, suspicion: Suspicion
) -> tuple[ApplicationHit, ...]:
    """Return the program errors within the window, with those of new events that belong to one workload."""
    added: list[ApplicationHit] = []
    for sign in events:
        code, at = _CODES.get(sign.rule), sign.event_at
        if code is None or at is None:
            continue
        workloads = {workload_name(holder.pod) for holder in holders_at(holders, sign.device, at)}
        if len(workloads) == 1:  # a shared GPU does not show which of its programs caused the error
            added.append(ApplicationHit(sign.device, code, workloads.pop(), at))
    newest = {(hit.device, hit.code, hit.workload): hit for hit in (*hits, *added) if now - hit.at <= suspicion.window}
    return tuple(newest.values())[-MAX_HITS:]


def suspicion_signs(hits: Iterable[ApplicationHit], suspicion: Suspicion) -> Iterator[Sign]:
    """Yield a sign for each GPU on which enough different workloads had the same XID."""
    by_gpu: dict[tuple[DeviceId, int], list[ApplicationHit]] = {}
    for hit in hits:
        by_gpu.setdefault((hit.device, hit.code), []).append(hit)
    for (device, code), group in by_gpu.items():
        if 0 < suspicion.workloads <= len(group):
            names = sorted(hit.workload for hit in group)
            yield Sign(
                device,
                f"suspect-xid-{code}",
                Verdict.HARDWARE,
                Severity.DEGRADED,
                f"XID {code} on this GPU under different workloads",
                "kernel log",
                f"NVIDIA XID catalogue, WORKFLOW_XID_{code}",
                tuple(names[:4]),
                settle=0.0,
                clearing=Clearing.QUIET,
            )
