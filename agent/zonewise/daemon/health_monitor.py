"""Checks the health of the hardware at each scan, and keeps its state over restarts in a small file."""

from __future__ import annotations

import logging
import os
import time
from typing import TYPE_CHECKING, NamedTuple

from zonewise.daemon.events import MACHINE_UNCHANGED
from zonewise.health.evaluation import evaluate, is_of_another_machine
from zonewise.health.held_devices import device_ids, held_devices, plugin_id, plugin_ids
from zonewise.health.holders import observe_holders
from zonewise.health.kernel_events import device_events
from zonewise.health.readers.observe import drives_gpus, observe, read_boot_id
from zonewise.health.state import (
    MAX_STATE_BYTES,
    HealthState,
    StateError,
    decode_baseline,
    decode_state,
    encode_state,
)
from zonewise.health.suspicion import Suspicion
from zonewise.health.types import GPU, Severity
from zonewise.kubelet.files import read as read_file
from zonewise.objects.hardware_faults import device_health
from zonewise_common.atomic_file import replace_file
from zonewise_common.service.options import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zonewise.daemon.events import Reason
    from zonewise.daemon.kernel_log_channel import KernelLogChannel
    from zonewise.daemon.nvml_watch import NvmlWatch
    from zonewise.health.evaluation import Diagnosis
    from zonewise.health.types import Baseline, DeviceEvent, DeviceId, Fault
    from zonewise.kubelet.types import Allocatable, PodResources
    from zonewise.machine.files import Files
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.nvml.facts import NvmlFacts

log = logging.getLogger(__name__)

SAVE_INTERVAL = 300.0
"""Seconds between two writes of the state while no fault changes: after a restart, counters may be that old."""
REPEATED_SAVE_INTERVAL = 10.0
"""Seconds between two writes while known faults only repeat: a program may cause XIDs without end. After a kill, the
agent reads the XIDs since the last write from the kernel log again."""


class HealthOptions(NamedTuple):
    """The health options from the settings."""

    state_file: str = ""
    baseline: Baseline | None = None
    suspicion: Suspicion = Suspicion()
    withhold: bool = False


class HealthMonitor:
    """The health of one node. For use by a single thread."""

    def __init__(
        self,
        files: Files,
        options: HealthOptions,
        *,
        kernel_log: KernelLogChannel | None = None,
        nvml: NvmlWatch | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Set the host's files, and the readers of the kernel log and NVML; both readers are optional."""
        self._files = files
        self._options = options
        self._log = kernel_log
        self._nvml = nvml
        self._clock = clock
        self._state = _read_state(options.state_file)
        self._saved_at = clock()
        self._save_failed = False
        self._silent_since: float | None = None
        self._silence_reported = False
        self._ids: tuple[Machine, dict[str, tuple[DeviceId, ...]]] | None = None
        self.counts: dict[tuple[str, str, str], int] = {}
        """Events and raised conditions by device, rule and verdict, since the agent's start."""

    @property
    def faults(self) -> tuple[Fault, ...]:
        """Return the active faults."""
        return self._state.active

    @property
    def state(self) -> HealthState:
        """Return the counters, faults and baseline so far, as the state file contains them."""
        return self._state

    def check(
        self, machine: Machine, pods: Iterable[PodResources] | None, reasons: frozenset[Reason]
    ) -> tuple[Fault, ...]:
        """Observe the machine, unless the reasons do not concern it; return the active faults."""
        held = None if pods is None else held_devices(self._device_ids(machine), pods)
        now = self._clock()
        if reasons <= MACHINE_UNCHANGED:
            if held is not None:
                holders = observe_holders(self._state.holders, held, now, self._state.time)
                self._state = self._state._replace(holders=holders, time=now)
            return self.faults
        events, sequence = self._events()
        observation = observe(self._files, machine, self._facts(machine), events, now)
        if is_of_another_machine(self._state, observation):
            log.warning(
                "%s: belongs to another machine, so health checks begin without it and learn a new baseline",
                self._options.state_file,
            )
        before = self._state.sequence_of(observation.boot_id)
        evaluation = evaluate(
            self._state, observation, held, configured=self._options.baseline, suspicion=self._options.suspicion
        )
        self._state = evaluation.state._replace(sequence=before if sequence is None else sequence)
        if self._nvml is not None and any(_is_suspected_gpu(fault) for fault in self._state.faults):
            self._nvml.query_soon()  # so that a second value confirms the fault, and not the age of the first one
        self._note(evaluation)
        self._report_silence(observation.silent, now)
        self._save_where_due(evaluation, now)
        return self.faults

    def device_health(self) -> dict[str, str]:
        """Return the health of faulty devices by name, as the report shows it."""
        return device_health(self.faults)

    def without_failed(self, machine: Machine, allocatable: Allocatable) -> Allocatable:
        """Return the allocatable resources without failed devices, if that is configured."""
        failed = [fault.sign.device for fault in self.faults if fault.sign.severity is Severity.FAILED]
        if not self._options.withhold or not failed:
            return allocatable
        ids = plugin_ids(self._device_ids(machine), failed)
        devices = tuple(
            of_zone._replace(ids=tuple(i for i in of_zone.ids if plugin_id(of_zone.resource, i) not in ids))
            for of_zone in allocatable.devices
        )
        return allocatable._replace(devices=tuple(of_zone for of_zone in devices if of_zone.ids))

    def close(self) -> None:
        """Write the state."""
        self._save(self._clock())

    def _device_ids(self, machine: Machine) -> dict[str, tuple[DeviceId, ...]]:
        """Return the devices by id; the scanner returns the same machine object while nothing changes."""
        if self._ids is None or self._ids[0] is not machine:
            self._ids = (machine, device_ids(machine))
        return self._ids[1]

    def _events(self) -> tuple[tuple[DeviceEvent, ...], int | None]:
        """Return the new events and the number of the last record; events that the state already contains
        are left out.
        """
        records = self._log.take() if self._log is not None else []
        known = self._state.sequence_of(read_boot_id(self._files))
        new = [r for r in records if r.sequence is None or known is None or r.sequence > known]
        events = list(device_events(new))
        if self._nvml is not None:
            events += self._nvml.take_events()
        if events and self._nvml is not None:
            self._nvml.query_soon()
        numbers = [record.sequence for record in new if record.sequence is not None]
        return tuple(events), max(numbers, default=None)

    def _facts(self, machine: Machine) -> NvmlFacts | None:
        if self._nvml is None or not drives_gpus(machine):
            return None
        self._nvml.start()
        return self._nvml.facts

    def _note(self, evaluation: Diagnosis) -> None:
        for fault in (*evaluation.raised, *evaluation.repeated):
            key = (str(fault.sign.device), fault.sign.rule, fault.sign.verdict.value)
            self.counts[key] = self.counts.get(key, 0) + 1
        for fault in evaluation.raised:
            sign = fault.sign
            level = logging.INFO if sign.severity is Severity.NOTE else logging.WARNING
            pods = f"; pods {', '.join(map(str, fault.pods))}" if fault.pods else ""
            log.log(level, "%s: %s; verdict %s; %s%s", sign.device, sign.message, sign.verdict, sign.source, pods)
        for fault in evaluation.cleared:
            log.info("%s: %s is over", fault.sign.device, fault.sign.rule)

    def _report_silence(self, silent: frozenset[str], now: float) -> None:
        """Log once that no baseline can be learned, if a source is silent for longer than a start takes."""
        if not silent or self._state.baseline is not None or self._options.baseline is not None:
            self._silent_since = None
            return
        self._silent_since = now if self._silent_since is None else self._silent_since
        if not self._silence_reported and now - self._silent_since >= SAVE_INTERVAL:
            self._silence_reported = True
            log.warning(
                "no baseline is learned because %s cannot be read, so missing devices and lanes are not detected. Make "
                "it readable for the agent, or set health.baselineFile", ", ".join(sorted(silent)),
            )  # fmt: skip

    def _save_where_due(self, evaluation: Diagnosis, now: float) -> None:
        interval = REPEATED_SAVE_INTERVAL if evaluation.repeated else SAVE_INTERVAL
        age = abs(now - self._saved_at)  # the clock may have been set back
        if evaluation.raised or evaluation.cleared or age >= interval:
            self._save(now)

    def _save(self, now: float) -> None:
        """Write the file atomically. A failure is logged once: health continues without it."""
        path = self._options.state_file
        if not path:
            return
        self._saved_at = now
        try:
            os.makedirs(os.path.dirname(path) or ".", mode=0o755, exist_ok=True)
            replace_file(path, encode_state(self._state), 0o644)
            self._save_failed = False
        except OSError as error:
            if not self._save_failed:
                log.warning("%s: %s: known faults are lost if the agent restarts", path, error.strerror)
            self._save_failed = True


def _is_suspected_gpu(fault: Fault) -> bool:
    return fault.sign.device.kind == GPU and not fault.active


def _read_state(path: str) -> HealthState:
    """Return the state in the file; a new state if there is no file or it is damaged."""
    if not path:
        return HealthState()
    try:
        return decode_state(read_file(path, MAX_STATE_BYTES).content)
    except FileNotFoundError:
        return HealthState()
    except (OSError, StateError) as error:
        log.warning("%s: cannot be used, so health checks begin without earlier state: %s", path, error)
        return HealthState()


def read_baseline(path: str) -> Baseline | None:
    """Return the configured baseline; None without a file. Raises SettingsError."""
    if not path:
        return None
    try:
        return decode_baseline(read_file(path, MAX_STATE_BYTES).content)
    except OSError as error:
        raise SettingsError(f"health.baselineFile: {path}: {error.strerror}") from error
    except StateError as error:
        raise SettingsError(f"health.baselineFile: {path}: not a baseline: {error}") from error
