"""Idle states and frequency scaling: drivers, modes and governors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.damage import DAMAGES, Damage, Damaged
from support.trees import Contents, line
from zonewise.machine.collector import Peek
from zonewise.machine.collectors.cpu.power import COLLECTOR, IDLE, MAX_CSTATE, POLICIES, PSTATE
from zonewise.machine.discover import Scan, Scanner
from zonewise.machine.files import MemoryFiles
from zonewise.machine.model.host import Power


def xeon() -> Contents:
    """Return a tree with Intel's drivers, two CPUs online and one offline."""
    tree: Contents = {
        f"{IDLE}/current_driver": line("intel_idle"),
        f"{IDLE}/current_governor_ro": line("menu"),
        MAX_CSTATE: line(9),
        f"{PSTATE}/status": line("active"),
        f"{PSTATE}/no_turbo": line(0),
        f"{PSTATE}/num_pstates": line(30),
    }
    for cpu in range(2):
        tree[f"{POLICIES}/policy{cpu}/affected_cpus"] = line(cpu)
        tree[f"{POLICIES}/policy{cpu}/scaling_governor"] = line("performance")
    tree[f"{POLICIES}/policy2/affected_cpus"] = b"\n"
    return tree


def scan(tree: Contents, damages: dict[str, Damage] | None = None) -> Scan:
    files = Damaged(MemoryFiles(tree.items()), damages or {})
    return Scanner(files, explain=True, collectors=(COLLECTOR,)).scan()


def test_a_xeon() -> None:
    """Every file exists. The policy of an offline CPU is not read, since the kernel would return EBUSY."""
    machine = scan(xeon()).machine
    assert machine.power == Power("intel_idle", 9, "active", True, ("performance",))
    assert machine.problems == ()


def test_governors_that_differ() -> None:
    """Each governor in use is listed once."""
    tree = xeon() | {f"{POLICIES}/policy1/scaling_governor": line("powersave")}
    assert scan(tree).machine.power.governors == ("performance", "powersave")


@pytest.mark.parametrize(("driver", "depth"), [("acpi_idle", None), ("none", None), ("intel_idle", 9)])
def test_the_limit_is_that_of_its_driver(driver: str, depth: int | None) -> None:
    """The parameter of intel_idle means nothing while another driver is active."""
    power = scan(xeon() | {f"{IDLE}/current_driver": line(driver)}).machine.power
    assert (power.idle_driver, power.max_cstate) == (driver, depth)


def test_a_driver_that_is_off() -> None:
    """While it is off, Intel's driver does not control turbo."""
    power = scan(xeon() | {f"{PSTATE}/status": line("off")}).machine.power
    assert (power.pstate, power.turbo) == ("off", None)


def test_other_machines() -> None:
    """Without any of the files, nothing is known, and nothing is reported."""
    machine = scan({"sys/devices/system/cpu": None}).machine
    assert (machine.power, machine.problems) == (Power(), ())


@pytest.mark.parametrize(
    ("path", "content"),
    [
        (f"{IDLE}/current_driver", b""),
        (MAX_CSTATE, line(-1)),
        (MAX_CSTATE, line(1000)),
        (f"{PSTATE}/status", line("asleep")),
        (f"{PSTATE}/no_turbo", line(7)),
        (f"{POLICIES}/policy0/scaling_governor", line("<unknown>")),
        (f"{POLICIES}/policy0/scaling_governor", line("two words")),
    ],
)
def test_damage_is_reported(path: str, content: bytes) -> None:
    """An impossible value is a problem that names its file."""
    assert f"/{path}" in {problem.path for problem in scan(xeon() | {path: content}).machine.problems}


@given(st.dictionaries(st.sampled_from(sorted(xeon())), DAMAGES, min_size=1, max_size=5))
def test_damage_does_not_fail_the_collector(damages: dict[str, Damage]) -> None:
    """Whatever happens to the files, the collector does not fail."""
    assert [run for run in scan(xeon(), damages).runs if run.outcome == "failed"] == []


def test_a_switched_setting_is_noticed() -> None:
    """Turbo, mode and governor can be switched while the machine runs."""

    def signature(tree: Contents) -> object:
        return COLLECTOR.volatile(Peek(MemoryFiles(tree.items())))

    for path, content in {f"{PSTATE}/no_turbo": line(1), f"{PSTATE}/status": line("passive"),
                          f"{POLICIES}/policy0/scaling_governor": line("schedutil")}.items():  # fmt: skip
        assert signature(xeon() | {path: content}) != signature(xeon())
