"""Programs that tests run beside themselves: Kubernetes' own are looked up as envtest does.

TEST_ASSET_KUBE_APISERVER and the like name the files, KUBEBUILDER_ASSETS names their directory, and
/usr/local/kubebuilder/bin is where they are by default.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from support.waiting import PATIENCE, pause

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from typing import Self

PROGRAMS = ("etcd", "kube-apiserver", "kubelet", "kube-scheduler")
"""What the tests on real servers run; kubectl beside them where it is installed."""
_DIE_WITH_US = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execv(sys.argv[1], sys.argv[1:])"


def place_of(name: str) -> Path:
    """Return where a program should be: "kube-apiserver"."""
    directory = os.environ.get("KUBEBUILDER_ASSETS", "/usr/local/kubebuilder/bin")
    return Path(os.environ.get(_variable(name), os.path.join(directory, name)))


def find_program(name: str) -> Path | None:
    """Return a program's file; None where there is none."""
    file = place_of(name)
    return file if os.access(file, os.X_OK) else None


def missing_program(name: str) -> str:
    """Return why tests that need a program are skipped where there is none."""
    return f"no {name}: set {_variable(name)} or KUBEBUILDER_ASSETS"


def dying_with_us(*command: str) -> list[str]:
    """Return a command for one that the kernel kills when we end, however that is.

    PR_SET_PDEATHSIG SIGKILL (prctl(2)) survives execve.
    """
    return [sys.executable, "-S", "-c", _DIE_WITH_US, *command]


@contextmanager
def terminal_signals() -> Generator[None]:
    """Have processes that are started in this block end by SIGINT and SIGHUP, as those of a terminal do.

    A shell without job control has what it starts behind `&` ignore SIGINT, these tests for one. A Python program keeps
    that until it sets a handler of its own, so an early Ctrl-C is lost. Under nohup SIGHUP is ignored.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler), signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before[0])
        signal.signal(signal.SIGHUP, before[1])


class RestartableProcess:
    """A program that tests kill, pause and start again; it runs while it is entered."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._command = command
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def is_alive(self) -> bool:
        """Tell whether it runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Return the ID of the process that was started last."""
        assert self._process is not None, "never started"
        return self._process.pid

    def start(self) -> None:
        """Start it; the log is appended to."""
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                dying_with_us(*self._command), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                cwd=self._log.parent,
            )  # fmt: skip

    def kill(self) -> None:
        """Kill it without a chance of a clean end."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE)

    def pause(self) -> None:
        """Stop it: its connections stay open and silent."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it continue."""
        os.kill(self.pid, signal.SIGCONT)


class Watched:
    """A process of ours; everything it says is kept."""

    def __init__(self, process: subprocess.Popen[bytes], said: Path) -> None:
        self.process = process
        self._said = said

    @property
    def said(self) -> str:
        """What it has logged so far."""
        return self._said.read_text()

    def until(self, condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
        """Wait until something holds; fail with all that was logged where it does not, or the process ends first."""
        started = time.monotonic()
        while not condition():
            assert self.process.poll() is None, f"ended with status {self.process.returncode}: {self.said}"
            waited = time.monotonic() - started
            assert waited < seconds, f"not so within {seconds} s: {self.said}"
            pause(waited)


def _variable(name: str) -> str:
    return f"TEST_ASSET_{name.upper().replace('-', '_')}"
