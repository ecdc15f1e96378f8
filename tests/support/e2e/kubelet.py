"""A real kubelet in a mount namespace of its own, on hardware made of files, with or without an API server.

Its /var/lib is a directory of the test, so every path is the default one. The device plugins' path is hard-coded
(k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1/constants.go). Without an API server, pods are static and given as files.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import time
from contextlib import ExitStack, closing
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from support.e2e.hardware import MOUNTED, TUNABLES
from support.e2e.settings import Settings, configuration
from support.programs import find_program, missing_program
from support.waiting import PATIENCE, pause
from zonewise_sandbox.up.ports import reserved_port

if TYPE_CHECKING:
    from collections.abc import Callable

NODE = "node-1"

# Bind-mounts pairs of arguments up to "--", then executes the rest.
_MOUNT_AND_RUN = 'while [ "$1" != -- ]; do mount --bind "$1" "$2"; shift 2; done; shift; exec "$@"'


def skip_reason() -> str | None:
    """Return why no kubelet can run here; None if one can."""
    if find_program("kubelet") is None:
        return missing_program("kubelet")
    if os.geteuid():
        return "a kubelet needs root"
    if lacking := [path for path in (*MOUNTED, *TUNABLES, "etc/hosts") if not Path("/", path).exists()]:
        return f"/{lacking[0]} is absent, nothing can be mounted over it"
    for tool in ("unshare", "setpriv", "mount"):
        if shutil.which(tool) is None:
            return f"no {tool} to make a mount namespace with"
    if subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode:
        return "mount namespaces are not permitted here"
    return None


class Kubelet:
    """A kubelet that runs inside a `with` block.

    The thread that enters the block must outlive it: the kernel kills the kubelet when that thread ends.
    """

    def __init__(
        self, place: Path, hardware: Path, runtime: str, settings: Settings, *, name: str = NODE, kubeconfig: str = ""
    ) -> None:
        """Prepare a kubelet in an empty directory, on files of hardware, with a container runtime's endpoint.

        With a kubeconfig, it creates a Node with its name and runs the pods bound to it.
        """
        self.place = place
        self.name = name
        self._kubeconfig = kubeconfig
        self.directory = place / "var-lib" / "kubelet"
        self.manifests = place / "manifests"
        self._stack = ExitStack()
        self.port = self._stack.enter_context(reserved_port())
        self._hardware = hardware
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: http.client.HTTPSConnection | None = None
        for directory in (self.directory / "device-plugins", self.manifests, place / "var-log"):
            directory.mkdir(parents=True)
        # a kubelet looks up its own name before it runs a pod, and may wait 5 s for a name server
        (place / "hosts").write_text(f"127.0.0.1 localhost {name}\n")
        self.config = self.directory / "config.yaml"
        made = configuration(settings, runtime=runtime, manifests=str(self.manifests), port=self.port)
        made["registerNode"] = kubeconfig != ""
        self.config.write_text(yaml.safe_dump(made))

    def __enter__(self) -> Kubelet:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._stack.close()

    @property
    def podresources(self) -> Path:
        """The socket of its PodResources API."""
        return self.directory / "pod-resources" / "kubelet.sock"

    @property
    def plugins(self) -> Path:
        """The directory of device plugins."""
        return self.directory / "device-plugins"

    @property
    def pid(self) -> int:
        """The process ID: the shell that mounts the files then executes the kubelet."""
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def log(self) -> str:
        """Everything written to the log so far."""
        return (self.place / "kubelet.log").read_text(errors="replace")

    def start(self, *, wait: bool = True) -> None:
        """Start the kubelet; wait for its server and its managers, of which the device manager starts last."""
        mounts = [(self._hardware / path, f"/{path}") for path in (*MOUNTED, *TUNABLES)]
        mounts += [(self.place / "var-lib", "/var/lib"), (self.place / "var-log", "/var/log")]
        mounts += [(self.place / "hosts", "/etc/hosts")]
        command = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "sh", "-euc", _MOUNT_AND_RUN, "sh"]
        command += [str(path) for mount in mounts for path in mount]
        command += ["--", str(find_program("kubelet")), "--config=/var/lib/kubelet/config.yaml"]
        command += [
            f"--hostname-override={self.name}",
            *([f"--kubeconfig={self._kubeconfig}"] * bool(self._kubeconfig)),
        ]
        with (self.place / "kubelet.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.place, start_new_session=True)
        if wait:
            endpoints = (self.plugins / "kubelet.sock", self.podresources, self.port)
            self.until(lambda: all(map(_accepts, endpoints)), "start")

    def stop(self) -> None:
        """Kill the kubelet and all processes that it started."""
        if self._process:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
        if self._connection:
            self._connection.close()
            self._connection = None

    def restart(self, *, wait: bool = True) -> None:
        """Kill the kubelet and start it again; the runtime, its containers and all files remain."""
        self.stop()
        self.start(wait=wait)

    def add(self, pod: dict[str, Any]) -> str:
        """Add a static pod; return the pod's name, which includes the node's name."""
        name = pod["metadata"]["name"]
        hidden = self.manifests / f".{name}"  # names with a dot are ignored (pkg/kubelet/config/file_linux.go)
        hidden.write_text(json.dumps(pod))
        hidden.rename(self.manifests / f"{name}.json")
        return f"{name}-{self.name}"

    def remove(self, name: str) -> None:
        """Remove a static pod by the name in its manifest."""
        (self.manifests / f"{name}.json").unlink()

    def get(self, path: str) -> bytes:
        """Return a page of the kubelet's own server: "/configz", "/pods" or "/metrics"."""
        if self._connection is None:
            context = ssl.create_default_context(cafile=str(self.directory / "pki" / "kubelet.crt"))
            context.check_hostname = False  # the certificate names the node, not the loopback address
            self._connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=PATIENCE, context=context)
        self._connection.request("GET", path)
        answer = self._connection.getresponse()
        content = answer.read()
        assert answer.status == HTTPStatus.OK, content
        return content

    def statuses(self) -> dict[str, dict[str, Any]]:
        """Return the status of every pod known to the kubelet, by name."""
        pods: list[dict[str, Any]] = json.loads(self.get("/pods"))["items"] or []
        return {pod["metadata"]["name"]: pod["status"] for pod in pods}

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait for a condition; fail with the end of the log on a timeout, or if the kubelet ends."""
        started = time.monotonic()
        while not holds():
            gone = self._process is None or self._process.poll() is not None
            waited = time.monotonic() - started
            if gone or waited > PATIENCE:
                raise AssertionError(f"kubelet {'gone' if gone else 'late'}: {what}\n{self.log[-6000:]}")
            pause(waited)


def _accepts(endpoint: Path | int) -> bool:
    """Return whether a program listens on a socket in a directory or on a port."""
    is_port = isinstance(endpoint, int)
    with closing(socket.socket(socket.AF_INET if is_port else socket.AF_UNIX)) as probe:
        return probe.connect_ex(("127.0.0.1", endpoint) if is_port else str(endpoint)) == 0
