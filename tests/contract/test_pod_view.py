"""The pod as the kernel sees it: with the manifest's mounts and no capability it sees the machine, and no secret."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from support.manifests import MANIFESTS
from support.pod_view import PodView, why_not

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not() or "")

LIMIT = 30.0
KUBELET = "/var/lib/kubelet"

SHOW = """
import sys
from zonewise.cli import main
sys.exit(main(["show", "--root", root + "/host", "-o", "json"]))
"""

LOOK = """
import ctypes, json, os, socket
kubelet = root + "/var/lib/kubelet"
inside = {name: os.listdir(kubelet + "/" + name) for name in ("pods", "plugins", "plugins_registry", "pki")}
def refused(action):
    try:
        action()
    except OSError as error:
        return error.strerror
MNT_DETACH = 2
library = ctypes.CDLL(None, use_errno=True)
uncovered = library.umount2((kubelet + "/pods").encode(), MNT_DETACH)
refusals = {
    "take a cover away": os.strerror(ctypes.get_errno()) if uncovered else None,
    "write a state file": refused(lambda: open(kubelet + "/cpu_manager_state", "w")),
    "make a file": refused(lambda: open(kubelet + "/new", "w")),
    "change the kernel": refused(lambda: open(root + "/host/sys/kernel/mm/transparent_hugepage/enabled", "w")),
}
processes = [name for name in os.listdir("/proc") if name.isdigit()]
print(json.dumps({"inside": inside, "refusals": refusals, "processes": len(processes)}), flush=True)
input()
os.chdir(kubelet + "/pod-resources")  # an address of a socket is short
connection = socket.socket(socket.AF_UNIX)
connection.connect("kubelet.sock")
print(json.dumps({"heard": connection.recv(9).decode(), "state": open(kubelet + "/cpu_manager_state").read()}))
"""


def pod() -> Any:
    return yaml.safe_load((MANIFESTS / "base/daemonset/daemonset.yaml").read_text())["spec"]["template"]["spec"]


@pytest.fixture
def kubelet(tmp_path: Path) -> Path:
    """A kubelet's directory, with what nobody else shall see."""
    directory = tmp_path / "kubelet"
    for name in ("pods/uid/volumes/secret", "plugins/driver", "plugins_registry", "pki", "pod-resources"):
        (directory / name).mkdir(parents=True)
    (directory / "pods/uid/volumes/secret/password").write_text("a secret")
    (directory / "pki/kubelet-client-current.pem").write_text("a key")
    (directory / "cpu_manager_state").write_text("old")
    return directory


def finished(process: subprocess.Popen[str], said: str = "") -> str:
    output, errors = process.communicate(said, timeout=LIMIT)
    assert (process.returncode, errors) == (0, "")
    return output


def test_it_sees_the_machine(tmp_path: Path, kubelet: Path) -> None:
    """Discovery in the pod finds what it finds on the host: /proc of the container is as good as that of the host."""
    view = PodView(tmp_path, pod(), {KUBELET: kubelet})
    seen = json.loads(finished(view.start(SHOW)))
    command = [sys.executable, "-m", "zonewise", "show", "-o", "json"]
    there = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=LIMIT).stdout)
    for machine in (seen, there):
        # asked of the running machine only, which `show` does not take the root to be: container and NVML
        machine["virtualization"].pop("container")
        for part in ("gpus", "problems"):
            machine.pop(part)
        machine["cpus"].pop("allowed")  # the one fact that is about the reader
    assert seen == there


def test_it_sees_the_kubelet_and_no_secret(tmp_path: Path, kubelet: Path) -> None:
    """Sockets and state that the kubelet makes anew are seen; volumes, keys and drivers are not, nor can it write."""
    process = PodView(tmp_path, pod(), {KUBELET: kubelet}).start(LOOK)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate(timeout=LIMIT)[1]
    told = json.loads(line)
    assert told["inside"] == {"pods": [], "plugins": [], "plugins_registry": [], "pki": []}
    assert told["refusals"].pop("take a cover away") == "Operation not permitted"
    assert set(told["refusals"].values()) == {"Read-only file system"}
    assert told["processes"] == 1
    with socket.socket(socket.AF_UNIX) as listener:
        listen_near(listener, kubelet / "pod-resources" / "kubelet.sock")
        (kubelet / "new").write_text("new")
        (kubelet / "new").rename(kubelet / "cpu_manager_state")
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"resources")
            assert json.loads(finished(process)) == {"heard": "resources", "state": "new"}


def listen_near(listener: socket.socket, path: Path) -> None:
    """Listen at a path that may be longer than an address of a socket can be."""
    before = os.getcwd()
    os.chdir(path.parent)
    try:
        listener.bind(path.name)
    finally:
        os.chdir(before)
    listener.settimeout(LIMIT)
    listener.listen()
