"""The file system of the agent's pod: with the manifest's mounts and no capability, it shows no secret."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from support.manifests import MANIFESTS, combined, containers
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
REPORT = """
import os, sys
from zonewise.cli import main
os.environ["NODE_NAME"] = "worker-3"
sys.exit(main(["show", "--root", root + "/host", "-o", "nrt"]))
"""

CAPTURE = """
import sys
from zonewise.cli import main
sys.exit(main(["capture", archive, "--root", root + "/host", "--with-identifiers"]))
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


LOOK_BY_DEFAULT = """
import json, os, socket
kubelet = root + "/var/lib/kubelet"
print(json.dumps({name: sorted(os.listdir(kubelet + "/" + name)) for name in sorted(os.listdir(kubelet))}), flush=True)
input()
os.chdir(kubelet + "/pod-resources")
connection = socket.socket(socket.AF_UNIX)
connection.connect("kubelet.sock")
print(connection.recv(9).decode(), open(kubelet + "/device-plugins/kubelet_internal_checkpoint").read())
"""


def pod() -> Any:
    return yaml.safe_load((MANIFESTS / "base/daemonset/daemonset.yaml").read_text())["spec"]["template"]["spec"]


def pod_with_state() -> Any:
    """Return the pod with the component that mounts the kubelet's state files."""
    [(with_state, _)] = containers(combined("overlays/default", "components/kubelet-state"))
    return with_state


@pytest.fixture
def kubelet(tmp_path: Path) -> Path:
    """Return a kubelet's directory, with files that the agent must not see."""
    directory = tmp_path / "kubelet"
    for name in (
        "pods/uid/volumes/secret",
        "plugins/driver",
        "plugins_registry",
        "pki",
        "pod-resources",
        "device-plugins",
    ):
        (directory / name).mkdir(parents=True)
    (directory / "pods/uid/volumes/secret/password").write_text("a secret")
    (directory / "pki/kubelet-client-current.pem").write_text("a key")
    for name in ("kubeconfig", "bootstrap-kubeconfig", "config.json"):
        (directory / name).write_text("a credential")
    (directory / "cpu_manager_state").write_text("old")
    return directory


def finished(process: subprocess.Popen[str], said: str = "") -> str:
    output, errors = process.communicate(said, timeout=LIMIT)
    assert (process.returncode, errors) == (0, "")
    return output


def shown(*arguments: str) -> Any:
    command = [sys.executable, "-m", "zonewise", "show", "-o", "json", *arguments]
    return json.loads(subprocess.run(command, check=True, capture_output=True, timeout=LIMIT).stdout)


def test_the_pod_sees_the_machine(tmp_path: Path, kubelet: Path) -> None:
    """Discovery in the pod gives the same result as on the host: the container's /proc is equivalent to the host's. A
    capture in the pod contains all of it.
    """
    view = PodView(tmp_path, pod(), {KUBELET: kubelet})
    seen = json.loads(finished(view.start(SHOW)))
    archive = tmp_path / "machine.tar.gz"
    finished(view.start(f"archive = {str(archive)!r}\n{CAPTURE}"))
    there, captured = shown(), shown("--root", str(archive))
    for machine in (seen, captured, there):
        machine["virtualization"].pop("container")  # that of the reading process
        for part in ("gpus", "problems"):
            machine.pop(part)
        machine["cpus"].pop("allowed")  # depends on the reading process
        machine["model"].pop("leaves")  # read from /dev/cpu/N/cpuid, which the pod does not have
    assert seen == captured == there


def test_the_pod_knows_its_node(tmp_path: Path, kubelet: Path) -> None:
    """The hostname of the container is that of the pod."""
    report = yaml.safe_load(finished(PodView(tmp_path, pod(), {KUBELET: kubelet}).start(REPORT)))
    assert report["metadata"]["name"] == "worker-3"


def test_the_pod_sees_no_credential_of_the_kubelet(tmp_path: Path, kubelet: Path) -> None:
    """By default, three directories are visible, with the socket and checkpoint that the kubelet recreates."""
    process = PodView(tmp_path, pod(), {KUBELET: kubelet}).start(LOOK_BY_DEFAULT)
    assert first_look(process) == {"device-plugins": [], "pod-resources": [], "pods-api": []}
    with socket.socket(socket.AF_UNIX) as listener:
        listen_near(listener, kubelet / "pod-resources" / "kubelet.sock")
        (kubelet / "new").write_text("devices")
        (kubelet / "new").rename(kubelet / "device-plugins" / "kubelet_internal_checkpoint")
        look_again(process)
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"resources")
            assert finished(process) == "resources devices\n"


def test_with_state_files_the_pod_sees_no_volume_and_no_key(tmp_path: Path, kubelet: Path) -> None:
    """Recreated sockets and state are visible; volumes, keys and drivers are not, and nothing is writable."""
    process = PodView(tmp_path, pod_with_state(), {KUBELET: kubelet}).start(LOOK)
    told = first_look(process)
    assert told["inside"] == {"pods": [], "plugins": [], "plugins_registry": [], "pki": []}
    assert told["refusals"].pop("take a cover away") == "Operation not permitted"
    assert set(told["refusals"].values()) == {"Read-only file system"}
    assert told["processes"] == 1
    with socket.socket(socket.AF_UNIX) as listener:
        listen_near(listener, kubelet / "pod-resources" / "kubelet.sock")
        (kubelet / "new").write_text("new")
        (kubelet / "new").rename(kubelet / "cpu_manager_state")
        look_again(process)
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"resources")
            assert json.loads(finished(process)) == {"heard": "resources", "state": "new"}


def first_look(process: subprocess.Popen[str]) -> Any:
    """Return what the process sees before it waits for the test."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate(timeout=LIMIT)[1]
    return json.loads(line)


def look_again(process: subprocess.Popen[str]) -> None:
    """Let the process read a second time."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def listen_near(listener: socket.socket, path: Path) -> None:
    """Listen at a path that may exceed the maximum length of a socket address."""
    before = os.getcwd()
    os.chdir(path.parent)
    try:
        listener.bind(path.name)
    finally:
        os.chdir(before)
    listener.settimeout(LIMIT)
    listener.listen()
