"""Idle states and frequency scaling: Documentation/admin-guide/pm/{cpuidle,intel_idle,cpufreq,intel_pstate}.rst."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.machine.attributes import Attributes
from zonewise.machine.collector import Collector
from zonewise.machine.collectors.cpu.sharing import CPU
from zonewise.machine.model.host import Power

if TYPE_CHECKING:
    from collections.abc import Hashable

    from zonewise.machine.collector import Peek
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.reader import Reader

IDLE = f"{CPU}/cpuidle"
MAX_CSTATE = "sys/module/intel_idle/parameters/max_cstate"
PSTATE = f"{CPU}/intel_pstate"
POLICIES = f"{CPU}/cpufreq"

_MODES = ("active", "passive", "off")
_DEEPEST = 99  # drivers/idle/intel_idle.c: CPUIDLE_STATE_MAX - 1 is 9; a parameter may contain any number


def _collect(read: Reader, machine: Machine) -> Machine:
    idle = Attributes(read, IDLE, "power", "the CPUs")
    if idle.names:
        idle.report_lacking(("current_driver",))
    driver = idle.text("current_driver", "idle_driver")
    return machine._replace(
        power=Power(driver, _max_cstate(read) if driver == "intel_idle" else None, *_pstate(read), _governors(read))
    )


def _max_cstate(read: Reader) -> int | None:
    value = read.integer(MAX_CSTATE, fact="power.max_cstate", needed="power.max_cstate")
    if value is None or 0 <= value <= _DEEPEST:
        return value
    read.problem(MAX_CSTATE, f"contains {value}", "power.max_cstate is unknown")
    return None


def _pstate(read: Reader) -> tuple[str | None, bool | None]:
    """Return the mode of Intel's driver, and whether it lets CPUs exceed their base frequency."""
    driver = Attributes(read, PSTATE, "power", "intel_pstate")
    if not driver.names:
        return None, None
    driver.report_lacking(("no_turbo", "status") if "num_pstates" in driver.names else ("no_turbo",))
    mode = driver.text("status", "pstate")  # since Linux 4.11
    if mode is not None and mode not in _MODES:
        read.problem(f"{PSTATE}/status", f"contains {mode[:60]!r}, which is not a mode", "power.pstate is unknown")
        mode = None
    no_turbo = None if mode == "off" else driver.integer("no_turbo", "turbo", highest=1, rule="1 means no turbo")
    return mode, None if no_turbo is None else not no_turbo


def _governors(read: Reader) -> tuple[str, ...]:
    governors: set[str] = set()
    for name in read.names(POLICIES):
        if name.startswith("policy") and read.text(f"{POLICIES}/{name}/affected_cpus") is not None:  # of online CPUs
            path = f"{POLICIES}/{name}/scaling_governor"
            governor = read.text(path, fact="power.governors", needed=f"the governor of {name}")
            if governor is not None and governor.isidentifier():
                governors.add(governor)
            elif governor is not None:
                read.problem(path, f"is not a governor: {governor[:60]!r}", f"the governor of {name} is unknown")
    return tuple(sorted(governors))


def _volatile(peek: Peek) -> Hashable:
    """Notice another driver, mode or governor. The first and the last policy represent all policies; there may be
    hundreds.
    """
    names = peek.names(POLICIES)
    policies = [f"{POLICIES}/{name}/scaling_governor" for name in (names[:1] + names[-1:])]
    return names, tuple(peek.content(path) for path in (f"{PSTATE}/status", f"{PSTATE}/no_turbo", *policies))


COLLECTOR = Collector("power", provides=("power",), needs=("cpus",), collect=_collect, volatile=_volatile)
