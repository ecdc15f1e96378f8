"""`zonewise health`: verdicts with their evidence, the exit status for scripts, and sources that cannot be read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from support.command_line import run, run_rejected
from zonewise.cli import main
from zonewise.health.readers.observe import read_boot_id
from zonewise.health.state import HealthState, encode_state
from zonewise.machine import kernel_log
from zonewise.machine.files import LIVE_ROOT, DirectoryFiles
from zonewise.machine.kernel_log import KernelLog

pytestmark = pytest.mark.usefixtures("plain_environment")

LOG = """\
[1700000000.000000] NVRM: Xid (PCI:0000:13:00): 79, pid=77, name=secret-model, GPU has fallen off the bus.
[1700000001.000000] NVRM: Xid (PCI:0000:83:00): 94, pid=78, name=python, Contained: CE User Channel (0x9)
[1700000002.000000] NVRM: Xid (PCI:0000:83:00): 31, pid=78, name=python, Ch 00000008
"""


@pytest.fixture
def faulty(server: str, tmp_path: Path) -> str:
    """Return the root of a server with a kernel log."""
    root = tmp_path / "faulty"
    shutil.copytree(server, root, symlinks=True)
    (root / "zonewise").mkdir()
    (root / "zonewise" / "kernel.log").write_text(LOG)
    return str(root)


def _status(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = main(["health", *arguments])
    return status, capsys.readouterr().out


def test_faults_have_verdict_source_rule_and_evidence(
    faulty: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    status, text = _status(capsys, "--root", faulty)
    assert status == 1
    lines = text.splitlines()
    assert lines[0] == "faulty: 1 failed, 1 degraded, 1 note"
    assert lines[3].split() == ["gpu", "0000:13:00.0", "failed", "hardware", "xid-79", "1", "2023-11-14T22:13:20Z"]
    assert "sources disagree: NVIDIA's action is RESTART_APP" in " ".join(text.split())
    assert all(len(line) <= 80 for line in lines)
    assert "not read: NVML's facts: the capture has none" in lines
    status, text = _status(capsys, "--root", faulty, "-o", "json")
    report = json.loads(text)
    assert (status, report["healthy"], len(report["faults"])) == (1, False, 3)
    fault = next(fault for fault in report["faults"] if fault["rule"] == "xid-79")
    assert (fault["verdict"], fault["source"], fault["severity"]) == ("hardware", "kernel log", "failed")
    assert "fallen off the bus" in fault["evidence"][0]


def test_a_capture_cannot_control_the_terminal(faulty: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Control characters in a capture's NVML facts are escaped: anyone may have written the capture."""
    Path(faulty, "zonewise", "nvml.json").write_text(json.dumps({"problem": "no driver\x1b[2J"}))
    assert "not read: NVML's facts: no driver^[[2J" in _status(capsys, "--root", faulty)[1].splitlines()


def test_a_capture_has_the_same_faults_without_process_names(
    faulty: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = str(tmp_path / "machine.tar.gz")
    run(capsys, "capture", archive, "--root", faulty)
    (_, before), (_, after) = _status(capsys, "--root", faulty), _status(capsys, "--root", archive)
    assert after == before.replace("secret-model", "removed").replace("name=python", "name=removed")


def test_a_healthy_machine_and_its_baseline(server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    baseline = tmp_path / "baseline.json"
    assert main(["health", "--root", server, "--write-baseline", str(baseline)]) == 2  # NVML's facts are unknown
    assert "nvml could not be read" in capsys.readouterr().err
    content = {"gpus": ["0000:13:00.0", "0000:f3:00.0"], "links": {"0000:13:00.0": {"speed": 32.0, "width": 16}}}
    baseline.write_text(json.dumps(content))
    status, text = _status(capsys, "--root", server, "--baseline", str(baseline))
    assert (status, "gpu 0000:f3:00.0 gpu-vanished: the GPU has vanished from the bus" in text) == (1, True)
    assert "suspected" in text  # observed once: the agent would check again before it reports a fault
    baseline.write_text(json.dumps({"gpus": ["0000:13:00.0"]}))
    assert _status(capsys, "--root", server, "--baseline", str(baseline))[0] == 0


def test_unusable_files_are_named(server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = tmp_path / "wrong.json"
    wrong.write_text('{"gpu": []}')
    message = run_rejected(capsys, "health", "--root", server, "--baseline", str(wrong))
    assert str(wrong) in message
    assert "gpu" in message
    assert "not a state file of the agent" in run_rejected(capsys, "health", "--root", server, "--state", str(wrong))
    assert "No such file" in run_rejected(capsys, "health", "--root", server, "--state", "/no/such/file")
    assert "no such file" in run_rejected(capsys, "health", "--root", "/no/such/place")


def test_records_of_a_new_boot_count_despite_small_sequence_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log, state = tmp_path / "kmsg", tmp_path / "health.json"
    log.write_text("4,5,1000000,-;NVRM: Xid (PCI:0000:13:00): 79, pid=7, GPU has fallen off the bus.\n")
    monkeypatch.setattr(kernel_log, "KernelLog", lambda: KernelLog(str(log)))
    for boot, known in (("of-yesterday", False), (read_boot_id(DirectoryFiles(LIVE_ROOT)), True)):
        state.write_bytes(encode_state(HealthState(boot, sequence=900)))
        assert ("xid-79" in _status(capsys, "--state", str(state))[1]) is not known
