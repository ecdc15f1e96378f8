"""The child process: it ends in time or is abandoned, and it leaves nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from zonewise.machine.nvml import child_process as child_module
from zonewise.machine.nvml.child_process import FAILURE_INTERVAL, REGISTRATION_INTERVAL, NvmlChild
from zonewise.machine.nvml.facts import NvmlFabric, NvmlFacts, NvmlGpu
from zonewise.machine.nvml.facts_json import to_json

if TYPE_CHECKING:
    from collections.abc import Iterator

FACTS = NvmlFacts(driver_version="570.86.10", cuda_version=12080)


def child_running(code: str, deadline: float = 20) -> NvmlChild:
    """Return a child that runs other code."""
    return NvmlChild([sys.executable, "-c", code], deadline=deadline)


def child_printing(text: str) -> NvmlChild:
    return child_running(f"print({text!r})")


def alive(process: int) -> bool:
    """Return whether a process exists, including a zombie."""
    return Path(f"/proc/{process}").exists()


def test_the_facts_are_the_last_line() -> None:
    """Earlier output of a library does not matter."""
    assert child_printing(f"NVML says hello\n{to_json(FACTS)}").query() == FACTS


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("", "ended with status 0"),
        ("print('{')", "ended with status 0: {"),
        ("print('[]')", "ended with status 0"),
        ("raise RuntimeError('no luck')", "ended with status 1: RuntimeError: no luck"),
        ("import os; os.abort()", "ended by signal 6"),
        ("import sys; sys.exit(3)", "ended with status 3"),
        ("import sys; sys.stdout.buffer.write(b'\\xff\\xfe')", r"\xff\xfe"),
    ],
)
def test_a_failed_query_is_a_single_line(code: str, words: str) -> None:
    """The line has the end of the process and its last output."""
    facts = child_running(code).query()
    assert words in (facts.problem or "")
    assert (facts.problem or "").startswith("the query of NVML failed: the process ended")
    assert "\n" not in (facts.problem or "")
    assert facts._replace(problem=None) == NvmlFacts()


def test_facts_of_a_failed_child_are_ignored() -> None:
    """A process that crashed after its last line may have printed anything."""
    facts = child_running(f"import os; print({to_json(FACTS)!r}, flush=True); os.abort()").query()
    assert facts.driver_version is None


def test_an_absent_command() -> None:
    """It is a problem, not an exception."""
    assert NvmlChild(["/no/such/python"]).query().problem == (
        "NVML cannot be queried: /no/such/python: No such file or directory"
    )


def test_much_output_does_not_block() -> None:
    """The child writes more than a pipe holds to both outputs."""
    code = f"import sys; sys.stderr.write('x' * 1_000_000); print('y' * 1_000_000); print({to_json(FACTS)!r})"
    assert child_running(code).query() == FACTS


def test_no_child_remains(tmp_path: Path) -> None:
    """One child ends before the deadline, one is stopped after it: neither is running or a zombie."""
    mark = tmp_path / "pid"
    note = f"import os, time, pathlib; pathlib.Path({str(mark)!r}).write_text(str(os.getpid()))"
    child_running(note).query()
    assert not alive(int(mark.read_text()))
    began = time.monotonic()
    facts = child_running(f"{note}\ntime.sleep(600)", deadline=1.5).query()
    assert facts.problem == "the nvidia driver did not respond within 1.5 s"
    assert time.monotonic() - began < 30
    assert not alive(int(mark.read_text()))


def test_a_grandchild_that_holds_the_pipes_does_not_block() -> None:
    """The library may start another program.

    If it hangs, the query does not wait for it, and the child is not blamed.
    """
    code = "import subprocess; subprocess.run(['sleep', '40'])"
    began = time.monotonic()
    child = child_running(code, deadline=0.5)
    assert child.query().problem == "the nvidia driver did not respond within 0.5 s"
    assert time.monotonic() - began < 20
    assert child.attempt == (1, False, 0)


def test_a_missed_deadline_leads_to_another_query() -> None:
    """The attempt changes after a query without a result, but not after one with a result."""
    child = child_running("import time; time.sleep(600)", deadline=0.5)
    before = child.attempt
    child.query()
    assert child.attempt != before
    second = child_printing(to_json(FACTS))
    before = second.attempt
    second.query()
    assert second.attempt == before


def test_a_gpu_that_registers_with_its_fabric_leads_to_a_query_in_each_interval(tmp_path: Path) -> None:
    """The fabric is ready minutes after the boot, and no file shows it."""
    output, now = tmp_path / "facts", [1000.0]
    child = NvmlChild(["cat", str(output)], clock=lambda: now[0])
    attempts: list[object] = [child.attempt]
    for state in (1, 2, 3):
        output.write_text(to_json(NvmlFacts(gpus=(NvmlGpu(0, fabric=NvmlFabric(state, 0, "a-b", 7)),))))
        child.query()
        attempts += [child.attempt]
        now[0] += REGISTRATION_INTERVAL
        attempts += [child.attempt]
    start, first, second, third, fourth, *registered = attempts
    assert len({start, first, second, fourth}) == 4
    assert (second, *registered) == (third, start, start)


@pytest.mark.parametrize("command", [["false"], ["/no/such/python"]])
def test_a_failed_query_is_repeated_after_an_interval(command: list[str]) -> None:
    """A process may be killed for lack of memory, or run while the driver is being reset."""
    now = [1000.0]
    child = NvmlChild(command, clock=lambda: now[0])
    assert child.query().problem is not None
    before = child.attempt
    now[0] += FAILURE_INTERVAL
    assert child.attempt != before


@pytest.fixture
def immortal(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[str]]]:
    """Make processes ignore kill(), as if they were sleeping in the kernel, and end them after the test."""
    spared: list[subprocess.Popen[str]] = []

    def spare(process: subprocess.Popen[str]) -> None:
        spared.append(process)

    monkeypatch.setattr(child_module, "_GRACE", 0.2)
    with monkeypatch.context() as patch:
        patch.setattr(subprocess.Popen, "kill", spare)
        yield spared
    for process in spared:
        process.kill()
        process.wait()


def test_a_child_that_cannot_be_ended_is_abandoned(immortal: list[subprocess.Popen[str]], tmp_path: Path) -> None:
    """The next query neither waits for it nor starts a second one; after its end, NVML is queried again."""
    go = tmp_path / "go"
    wait = f"while not pathlib.Path({str(go)!r}).exists(): time.sleep(0.05)"
    code = f"import time, pathlib\n{wait}\nprint({to_json(FACTS)!r})"
    child = child_running(code, deadline=1)
    first = child.query().problem or ""
    assert "cannot be ended because it hangs in the kernel" in first
    (left,) = immortal
    assert (
        child.query().problem
        == f"the nvidia driver has not responded to process {left.pid} yet, so it is not queried again"
    )
    assert child.attempt == (1, True, 0)
    go.touch()
    left.wait(120)
    assert child.attempt == (1, False, 0)
    assert not alive(left.pid)
    assert child.query() == FACTS


def test_the_child_gets_the_environment_and_additions() -> None:
    """Variables such as LD_LIBRARY_PATH can be added; the module path of the agent is passed on."""
    code = "import json, os; print(json.dumps({'driver_version': os.environ['ADDED'] + os.environ['PYTHONPATH']}))"
    child = NvmlChild([sys.executable, "-c", code], environment={"ADDED": "yes:"})
    version = child.query().driver_version or ""
    assert version.startswith("yes:")
    assert set(version.removeprefix("yes:").split(os.pathsep)) == {os.path.abspath(path) for path in sys.path}


def test_our_own_module_prints_facts() -> None:
    """The real command line ends with facts, whatever this machine has."""
    facts = NvmlChild(deadline=60).query()
    assert "failed" not in (facts.problem or "")
    assert json.loads(to_json(facts))
