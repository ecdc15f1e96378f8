"""Programs that tests run as separate processes. Kubernetes' own are looked up as envtest does.

TEST_ASSET_KUBE_APISERVER and similar variables name the files, and KUBEBUILDER_ASSETS names their directory. The
default directory is /usr/local/kubebuilder/bin.
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
"""The programs for tests on real servers; kubectl may be in the same directory."""
_DIE_WITH_US = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execv(sys.argv[1], sys.argv[1:])"


def place_of(name: str) -> Path:
    """Return the expected path of a program such as "kube-apiserver"."""
    directory = os.environ.get("KUBEBUILDER_ASSETS", "/usr/local/kubebuilder/bin")
    return Path(os.environ.get(_variable(name), os.path.join(directory, name)))


def find_program(name: str) -> Path | None:
    """Return a program's file; None if there is none."""
    file = place_of(name)
    return file if os.access(file, os.X_OK) else None


def missing_program(name: str) -> str:
    """Return the reason for skipping tests if a program is missing."""
    return f"no {name}: set {_variable(name)} or KUBEBUILDER_ASSETS"


def dying_with_us(*command: str) -> list[str]:
    """Return a command for a process that the kernel kills when this process ends, for any reason.

    PR_SET_PDEATHSIG SIGKILL (prctl(2)) survives execve.
    """
    return [sys.executable, "-S", "-c", _DIE_WITH_US, *command]


@contextmanager
def terminal_signals() -> Generator[None]:
    """Let SIGINT and SIGHUP end processes that are started in this block, as in a terminal.

    A shell without job control starts background processes, such as these tests, with SIGINT ignored. A Python program
    inherits that until it sets a handler of its own, so an early Ctrl-C is lost. Under nohup, SIGHUP is ignored.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler), signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before[0])
        signal.signal(signal.SIGHUP, before[1])


class RestartableProcess:
    """A program that tests kill, pause and start again; it runs inside a `with` block."""

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
        """Whether the program runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The ID of the last process started."""
        assert self._process is not None, "never started"
        return self._process.pid

    def start(self) -> None:
        """Start the program; the log is appended to."""
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                dying_with_us(*self._command), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                cwd=self._log.parent,
            )  # fmt: skip

    def kill(self) -> None:
        """Kill the program without a chance to end cleanly."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE)

    def pause(self) -> None:
        """Pause the program: its connections remain open without sending anything."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Resume the program."""
        os.kill(self.pid, signal.SIGCONT)


class Watched:
    """A process of the project with its log."""

    def __init__(self, process: subprocess.Popen[bytes], said: Path) -> None:
        self.process = process
        self._said = said

    @property
    def said(self) -> str:
        """The log so far."""
        return self._said.read_text()

    def until(self, condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
        """Wait until a condition holds; fail with the log on a timeout, or if the process ends first."""
        started = time.monotonic()
        while not condition():
            assert self.process.poll() is None, f"ended with status {self.process.returncode}: {self.said}"
            waited = time.monotonic() - started
            assert waited < seconds, f"not so within {seconds} s: {self.said}"
            pause(waited)


def _variable(name: str) -> str:
    return f"TEST_ASSET_{name.upper().replace('-', '_')}"
