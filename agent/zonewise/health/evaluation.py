"""Derives faults from observations: which faults begin, which last, and which are over.

The states of one fault, which is one rule on one device:

| state | sign of an event | sign of a condition | no sign, and its source has a value |
|---|---|---|---|
| none | active | suspected; active if `confirm` is 0 | none |
| suspected | - | active after `confirm` seconds | none |
| active | active, counted | active | none after `settle` seconds and the event in `clearing` |

Invariants: a fault never ends because its source is silent or the agent was restarted. A harmless event of
the same rule does not end a fatal one. Evaluating an observation twice does not raise a fault twice. The size of the
state is bounded.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple

from zonewise.health.amd_rules import amd_signs
from zonewise.health.baseline import learn
from zonewise.health.counters import advance, reset_gpus
from zonewise.health.drive_rules import drive_signs
from zonewise.health.event_rules import DRIVER_RESET, event_sign
from zonewise.health.fabric_rules import fabric_signs
from zonewise.health.gpu_rules import gpu_signs
from zonewise.health.holders import current_holders, holders_at, observe_holders
from zonewise.health.host_rules import host_signs
from zonewise.health.silence import is_silent
from zonewise.health.state import MAX_FAULTS, HealthState
from zonewise.health.suspicion import SUSPICION, note_hits, suspicion_signs
from zonewise.health.types import GPU, MAX_PODS, Baseline, Clearing, Fault, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise.health.holders import Holder, Holders
    from zonewise.health.suspicion import Suspicion
    from zonewise.health.types import DeviceId, FaultKey, HardwareObservation, PodName, Sign

SAME_EVENT = 5.0
"""Seconds within which the kernel log and NVML report the same event."""


class Diagnosis(NamedTuple):
    """The changes that an observation caused."""

    state: HealthState
    raised: tuple[Fault, ...] = ()
    """Faults that became active with this observation."""
    repeated: tuple[Fault, ...] = ()
    """Active faults with another event."""
    cleared: tuple[Fault, ...] = ()


def evaluate(
    state: HealthState,
    observation: HardwareObservation,
    held: Mapping[DeviceId, Iterable[PodName]] | None = None,
    *,
    configured: Baseline | None = None,
    suspicion: Suspicion = SUSPICION,
    whole_log: bool = False,
) -> Diagnosis:
    """Return the state after an observation.

    `held` lists which containers hold which devices now, None if the kubelet is silent. A configured baseline replaces
    the learned one. With `whole_log` events count regardless of their age. The state of another machine is ignored.
    """
    if is_of_another_machine(state, observation):
        state = HealthState()
    now = observation.time
    holders = state.holders if held is None else observe_holders(state.holders, held, now, state.time)
    counters = advance({} if _rebooted(state, observation) else state.counters, observation)
    expected = configured or state.baseline or Baseline()
    signs = [event_sign(event, now) for event in observation.events]
    events = [sign for sign in signs if (whole_log or not _is_over(sign, now)) and not _is_duplicate(sign, state)]
    hits = note_hits(state.hits, events, holders, now, suspicion)
    conditions = [
        *gpu_signs(observation, expected, counters),
        *amd_signs(observation, counters),
        *fabric_signs(observation, expected, counters),
        *host_signs(observation, expected, counters),
        *drive_signs(observation),
        *suspicion_signs(hits, suspicion),
    ]
    faults = _faults_after(state, observation, events, conditions, holders)
    learned = learn(observation, state.baseline, [fault for fault in faults if fault.sign.severity > Severity.NOTE])
    after = HealthState(
        observation.boot_id or state.boot_id,
        now,
        learned,
        counters,
        faults,
        holders,
        hits,
        state.sequence,
        observation.machine_id or state.machine_id,
    )
    return _changes(state, after)


def _faults_after(
    state: HealthState,
    observation: HardwareObservation,
    events: Iterable[Sign],
    conditions: Iterable[Sign],
    holders: Holders,
) -> tuple[Fault, ...]:
    reset = reset_gpus(state.counters, observation)
    faults = {fault.key: _seen_reset(fault, reset) for fault in state.faults}
    present = _merge_conditions(faults, conditions, observation)
    for sign in events:
        if sign.rule == DRIVER_RESET:
            faults = {key: _seen_reset(fault, frozenset({sign.device.name})) for key, fault in faults.items()}
        faults[sign.key] = _attributed(_with_event(faults.get(sign.key), sign, observation), holders)
        present.add(sign.key)
    remaining = {key: fault for key, fault in faults.items() if key in present or not _ends(fault, observation)}
    return tuple(_attributed(fault, holders) for fault in _bounded(remaining.values()))


def is_of_another_machine(state: HealthState, observation: HardwareObservation) -> bool:
    """Return whether a state is certainly of another machine, e.g. because a disk image contains its file."""
    return bool(state.machine_id) and bool(observation.machine_id) and state.machine_id != observation.machine_id


def _changes(before: HealthState, after: HealthState) -> Diagnosis:
    old = {fault.key: fault for fault in before.active}
    new = {fault.key: fault for fault in after.active}
    raised = tuple(fault for key, fault in new.items() if key not in old)
    repeated = tuple(
        fault
        for key, fault in new.items()
        if key in old and fault.sign.event_at is not None and fault.occurrences > old[key].occurrences
    )
    return Diagnosis(after, raised, repeated, tuple(fault for key, fault in old.items() if key not in new))


def _rebooted(before: HealthState | Fault, observation: HardwareObservation) -> bool:
    return bool(before.boot_id) and bool(observation.boot_id) and before.boot_id != observation.boot_id


def _needs_no_reset(device: DeviceId, observation: HardwareObservation) -> bool:
    """Return whether the driver itself reports that a GPU needs no recovery now."""
    gpu = (observation.gpus or {}).get(device.name) if device.kind == GPU else None
    return gpu is not None and not gpu.lost and gpu.recovery_action == 0


def _is_over(sign: Sign, now: float) -> bool:
    """Return whether an event is so old that its fault would end at once."""
    at = now if sign.event_at is None else sign.event_at
    return sign.clearing is Clearing.QUIET and now - at >= sign.settle


def _is_duplicate(sign: Sign, state: HealthState) -> bool:
    """Return whether another reader has reported the same event."""
    for fault in state.faults:
        if fault.key == sign.key and sign.event_at is not None and fault.sign.reader != sign.reader:
            return abs(fault.last - sign.event_at) <= SAME_EVENT
    return False


def _seen_reset(fault: Fault, reset: frozenset[str]) -> Fault:
    device = fault.sign.device
    was_reset = device.kind == GPU and device.name in reset
    return fault._replace(was_reset=True) if was_reset and not fault.was_reset else fault


def _merge_conditions(
    faults: dict[FaultKey, Fault], signs: Iterable[Sign], observation: HardwareObservation
) -> set[FaultKey]:
    """Merge the signs of conditions into the faults; return the faults whose sign is present now."""
    now = observation.time
    present: set[FaultKey] = set()
    for sign in signs:
        before = faults.get(sign.key)
        first = min(before.first, now) if before is not None else now
        active = (before is not None and before.active) or now - first >= sign.confirm
        occurrences = before.occurrences + 1 if before is not None else 1
        fault = Fault(sign, first, now, occurrences, active, observation.boot_id)
        faults[sign.key] = _with_pods(fault, before) if before is not None else fault
        present.add(sign.key)
    return present


def _with_event(before: Fault | None, sign: Sign, observation: HardwareObservation) -> Fault:
    at = observation.time if sign.event_at is None else sign.event_at
    if before is None:
        return Fault(sign, at, at, 1, True, observation.boot_id)
    first, last = min(before.first, at), max(before.last, at)
    worst = _worse(before, sign, observation)
    return _with_pods(Fault(worst, first, last, before.occurrences + 1, True, observation.boot_id), before)


def _worse(before: Fault, sign: Sign, observation: HardwareObservation) -> Sign:
    """Return the worse of a fault's sign and that of another event; a sign whose own event is over does not count."""
    at = before.last if before.sign.event_at is None else before.sign.event_at
    is_over = before.was_reset or _rebooted(before, observation) or _ends(before._replace(last=at), observation)
    return sign if is_over or sign.severity >= before.sign.severity else before.sign


def _with_pods(fault: Fault, before: Fault) -> Fault:
    return fault._replace(pods=before.pods, held_since=before.held_since)


def _ends(fault: Fault, observation: HardwareObservation) -> bool:
    """Return whether a fault that has no sign now is over."""
    if is_silent(fault.sign, observation):
        return False
    if not fault.active:
        return True
    now = observation.time
    if 0 <= now - fault.last < fault.sign.settle:
        return False
    rebooted = _rebooted(fault, observation)
    match fault.sign.clearing:
        case Clearing.REBOOT:
            return rebooted
        case Clearing.RESET:
            return rebooted or fault.was_reset or _needs_no_reset(fault.sign.device, observation)
        case _:
            return True


def _bounded(faults: Iterable[Fault]) -> list[Fault]:
    """Return the faults in canonical order, without the oldest notes if there are too many."""
    ordered = sorted(faults, key=lambda fault: (fault.active, fault.sign.severity, fault.last), reverse=True)
    return sorted(ordered[:MAX_FAULTS], key=lambda fault: fault.key)


def _attributed(fault: Fault, holders: Holders) -> Fault:
    """Return an active fault with the pods that it hit.

    An event hit the pods that held the device at that time. A device that has failed hits every pod that holds it.
    """
    if not fault.active:
        return fault
    sign = fault.sign
    hit: tuple[Holder, ...] = ()
    if sign.event_at is not None:
        hit = holders_at(holders, sign.device, sign.event_at, sign.instance)
    if sign.severity is Severity.FAILED:
        hit += current_holders(holders, sign.device)
    merged = dict(zip(fault.pods, fault.held_since or repeat(0.0), strict=False)) | {one.pod: one.since for one in hit}
    pods, held_since = tuple(merged)[-MAX_PODS:], tuple(merged.values())[-MAX_PODS:]
    return fault._replace(pods=pods, held_since=held_since)
