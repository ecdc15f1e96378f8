"""The list of problems."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.any_machines import any_machines
from support.machines import ALL
from zonewise.machine.model.machine import Machine
from zonewise.machine.model.problem import Problem
from zonewise.render.canvas import column_width
from zonewise.render.problems import render_problems

CORE = "/sys/devices/system/cpu/cpu{}/topology/core_id"


def test_no_problems_no_text() -> None:
    """For a healthy machine, nothing is printed."""
    assert all(render_problems(build(), 80) == "" for build in ALL.values())


def test_equal_problems_are_listed_once() -> None:
    """128 files with the same problem are one entry with a count; another problem is another entry."""
    problems = [Problem(CORE.format(cpu), f"is empty: the core of CPU {cpu} is unknown") for cpu in range(128)]
    problems.append(Problem("/proc/cpuinfo", "is truncated", "/sys/devices/system/cpu/online"))
    assert render_problems(Machine(problems=tuple(problems)), 80) == (
        "/sys/devices/system/cpu/cpu0/topology/core_id\n"
        "  is empty: the core of CPU 0 is unknown\n"
        "  (128 files like this)\n"
        "/proc/cpuinfo\n"
        "  is truncated\n"
        "  fallback: /sys/devices/system/cpu/online"
    )


def test_problems_of_one_file_are_counted_as_such() -> None:
    """Two PCI addresses in one directory are one entry with "2 times"."""
    text = "0000:{}:00.0: vendor is absent"
    problems = tuple(Problem("/sys/bus/pci/devices", text.format(bus)) for bus in ("3a", "b7"))
    assert render_problems(Machine(problems=problems), 80).endswith("\n  (2 times)")


def test_different_problems_are_never_merged() -> None:
    """Problems with different texts, files or used values are separate."""
    problems = (
        Problem("/a", "is empty"),
        Problem("/a", "is missing"),
        Problem("/b", "is empty"),
        Problem("/a", "is empty", "/c"),
    )
    shown = render_problems(Machine(problems=problems), 80)
    assert shown.count("is empty") + shown.count("is missing") == len(problems)
    assert "like this" not in shown


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_problem_is_wrapped_and_whole(width: int) -> None:
    """However narrow the terminal is, nothing is cut off."""
    path = "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/current_link_speed"
    problem = Problem(path, "says a speed that no generation of PCI Express has", "nothing of this link")
    shown = render_problems(Machine(problems=(problem,)), width)
    assert path in shown.replace("\n", "")
    assert "says a speed that no generation of PCI Express has" in " ".join(shown.split())


def test_a_problem_without_a_file_belongs_to_the_machine() -> None:
    """A collector that failed names no file."""
    assert render_problems(Machine(problems=(Problem("", "collector x failed"),)), 80).startswith("the whole machine\n")


@settings(max_examples=40, deadline=None)
@given(any_machines(), st.integers(40, 200))
def test_no_line_is_too_long(machine: Machine, width: int) -> None:
    """Paths and problems may have any length."""
    assert all(column_width(line) <= width for line in render_problems(machine, width).split("\n"))
