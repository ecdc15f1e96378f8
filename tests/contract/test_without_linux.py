"""`zonewise simulate` and the user commands need no Linux features, since people use them on macOS."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = """\
import os, select, signal, socket, sys

LINUX = {os: ("sched_getaffinity", "eventfd", "pidfd_open", "memfd_create", "posix_fadvise", "O_PATH"),
         select: ("epoll", "EPOLLIN"), signal: ("sigtimedwait",), socket: ("AF_NETLINK", "SO_PEERCRED", "TCP_KEEPIDLE")}
for module, names in LINUX.items():
    for name in names:
        vars(module).pop(name, None)
socket.TCP_KEEPALIVE = 4  # the name of macOS; on Linux the number is that of TCP_KEEPIDLE
sys.modules["pynvml"] = None  # cannot be imported

def audit(event, arguments):
    if event == "open" and str(arguments[0]).startswith(("/proc/", "/sys/")):
        os._exit(9)

sys.addaudithook(audit)
from zonewise.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("simulate hpc --nodes 4x64 --jobs 10", 0),
        ("--help", 0),
        ("queue --kubeconfig none", 2),
        ("top --kubeconfig none", 2),
        ("explain job --api-server http://127.0.0.1:1", 2),
        ("page --api-server http://127.0.0.1:1", 2),
        ("submit --help", 0),
    ],
    ids=lambda value: str(value).partition(" ")[0],
)
def test_the_program_runs_without_linux_features(command: str, status: int) -> None:
    program = [sys.executable, "-c", _PROGRAM, *command.split()]
    result = subprocess.run(program, capture_output=True, text=True, check=False, timeout=120)
    assert (result.returncode, "Traceback" in result.stderr) == (status, False), result.stderr
