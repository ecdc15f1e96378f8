"""`zonewise health`: checks the hardware of this machine or a captured one, and names the rule for each fault.

Status 0: healthy, or notes only; 1: a device is degraded or has failed; 2: the arguments or the source cannot be used.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING

from zonewise.commands.root import add_root_argument, open_files
from zonewise_common.cli import output
from zonewise_common.cli.command import Command, CommandError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from zonewise.health.report import HealthReport
    from zonewise.health.state import HealthState
    from zonewise.health.types import Baseline, DeviceEvent, HardwareObservation
    from zonewise.machine.files import Files
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.nvml.facts import NvmlFacts

STATE_FILE = "/var/lib/zonewise/health.json"
_FAULTY = 1
_DEFAULT_WIDTH = 100


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = "Status 0: healthy, or notes only; 1: a device is degraded or has failed."
    add_root_argument(parser)
    add = parser.add_argument
    add("-o", "--output", choices=("table", "json"), default="table", help="output format (default: table)")
    add("--baseline", metavar="FILE", help="description of the machine in good health, as --write-baseline writes it "
        "(default: the baseline that the agent learned)")  # fmt: skip
    add(
        "--write-baseline",
        metavar="FILE",
        help='write the present state of the machine as a baseline to this file ("-": standard output)',
    )
    add(
        "--state",
        metavar="FILE",
        help=f"state file of the agent (default: {STATE_FILE} on the live machine, if it exists)",
    )


def run(arguments: Namespace) -> int:
    """Check the machine once and print the verdicts. Raises CommandError."""
    from zonewise.health.report import render_report, report_to_json

    files = open_files(arguments.root)
    state, baseline = _state(arguments.state, live=files.live), _baseline(arguments.baseline)
    observation, silent = _observe(files, state)
    if arguments.write_baseline:
        return _write_baseline(observation, arguments.write_baseline)
    report = _judge(state, baseline, observation, silent)
    if arguments.output == "json":
        text = json.dumps(report_to_json(report), indent=2) + "\n"
    else:
        text = render_report(report, shutil.get_terminal_size((_DEFAULT_WIDTH, 0)).columns)
    output.write(text, output.STANDARD_OUTPUT)
    return 0 if report.is_healthy else _FAULTY


COMMAND = Command("check the hardware for faults, with the rule and verdict of each", add_arguments, run)


def _judge(
    state: HealthState, baseline: Baseline | None, observation: HardwareObservation, silent: tuple[str, ...]
) -> HealthReport:
    from zonewise.health.evaluation import evaluate
    from zonewise.health.report import HealthReport

    has_baseline = baseline is not None or state.baseline is not None
    evaluation = evaluate(state, observation, configured=baseline, whole_log=True)
    return HealthReport(evaluation.state.faults, silent, has_baseline)


def _observe(files: Files, state: HealthState) -> tuple[HardwareObservation, tuple[str, ...]]:
    """Return an observation, and the sources that could not be read."""
    from zonewise.health.readers.observe import observe
    from zonewise.machine.discover import Scanner

    machine = Scanner(files).scan().machine
    facts, silent = _nvml_facts(files, machine)
    events, log_problem = _events(files, state)
    times = [event.at for event in events if event.at is not None]
    now = time.time() if files.live else max(times, default=0.0)
    problems = [problem for problem in (silent, log_problem) if problem]
    return observe(files, machine, facts, events, now), tuple(problems)


def _nvml_facts(files: Files, machine: Machine) -> tuple[NvmlFacts | None, str]:
    from zonewise.health.readers.observe import drives_gpus

    if not drives_gpus(machine):
        return None, ""
    facts = _captured_facts(files) if not files.live else _live_facts()
    if facts is None:
        return None, "NVML's facts: the capture has none"
    return facts, f"NVML's facts: {facts.problem}" if facts.problem else ""


def _live_facts() -> NvmlFacts:
    from zonewise.machine.nvml.child_process import NvmlChild

    return NvmlChild().query()


def _captured_facts(files: Files) -> NvmlFacts | None:
    from zonewise.machine.nvml.facts_json import CAPTURED, from_json

    try:
        return from_json(files.read(CAPTURED).decode())
    except (OSError, ValueError):
        return None


def _events(files: Files, state: HealthState) -> tuple[tuple[DeviceEvent, ...], str]:
    from zonewise.health.kernel_events import device_events
    from zonewise.health.readers.observe import read_boot_id
    from zonewise.machine.kernel_log import KernelLog, captured_log

    if not files.live:
        records = captured_log(files)
        return tuple(
            device_events(records or ())
        ), "" if records is not None else "the kernel log: the capture has none"
    try:
        with closing(KernelLog()) as log:
            records = log.read_all()
    except OSError as error:
        return (), f"the kernel log: {error.strerror}; XIDs and PCI Express errors are unknown"
    known = state.sequence_of(read_boot_id(files))
    return tuple(device_events(r for r in records if known is None or r.sequence is None or r.sequence > known)), ""


def _state(path: str | None, *, live: bool) -> HealthState:
    from zonewise.health.state import MAX_STATE_BYTES, HealthState, StateError, decode_state

    if path is None:
        if not live or not os.access(STATE_FILE, os.R_OK):
            return HealthState()
        path = STATE_FILE
    try:
        return decode_state(_content(path, MAX_STATE_BYTES))
    except StateError as error:
        raise CommandError(f"{path}: not a state file of the agent: {error}") from error


def _baseline(path: str | None) -> Baseline | None:
    if path is None:
        return None
    from zonewise.health.state import MAX_STATE_BYTES, StateError, decode_baseline

    try:
        return decode_baseline(_content(path, MAX_STATE_BYTES))
    except StateError as error:
        raise CommandError(f"{path}: not a baseline: {error}") from error


def _content(path: str, most: int) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(most)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from error


def _write_baseline(observation: HardwareObservation, path: str) -> int:
    from zonewise.health.baseline import learn
    from zonewise.health.state import encode_baseline

    baseline = learn(observation, None)
    if baseline is None:
        raise CommandError(f"no baseline was written: {', '.join(sorted(observation.silent))} could not be read")
    output.write(encode_baseline(baseline).decode(), path)
    sys.stderr.write(
        ""
        if path == output.STANDARD_OUTPUT
        else f"{path}: written; use this baseline only if the machine is healthy now\n"
    )
    return 0
