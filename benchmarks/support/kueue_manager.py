"""Kueue's manager as a process, for benchmarks that use it as a peer.

A build of kubernetes-sigs/kueue's cmd/kueue is looked up as `kueue`, next to the Kubernetes programs. It has the
request limits of its shipped configuration (config/components/manager/controller_manager_config.yaml), and no admission
webhooks: Jobs are submitted suspended, and CRDs set the defaults. It needs root, since the directory of its certificate
is fixed.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.support.agent_testbed import PROJECT
from benchmarks.support.peer_process import running_program

if TYPE_CHECKING:
    from collections.abc import Generator

    from support.live_cluster import LiveCluster

sys.path.insert(0, str(PROJECT / "tests"))

PROGRAM = "kueue"
REQUESTS_PER_SECOND, BURST = 300, 500
_CERTIFICATE = "kueue/metrics/certs"
"""Path below /etc (cmd/kueue/main.go)."""
_RESOLVER_FILES = ("hosts", "resolv.conf", "nsswitch.conf")
_GATES_OFF = ("MultiKueue", "VisibilityOnDemand")
"""Gates that need more CRDs, or a server on all addresses."""
_MOUNT_AND_RUN = 'mount --bind "$1" /etc; shift; exec "$@"'


def kueue_absence() -> str:
    """Return why Kueue cannot run here, or "" if it can."""
    from support.programs import find_program, missing_program

    if find_program(PROGRAM) is None:
        return missing_program(PROGRAM)
    if os.geteuid():
        return "Kueue's manager needs root: its certificate is in /etc"
    return ""


@contextlib.contextmanager
def running_kueue(cluster: LiveCluster) -> Generator[None]:
    """Run Kueue's manager on a cluster until the block ends, with Jobs as its only kind; wait until it is ready."""
    from support.programs import find_program
    from zonewise_sandbox.up.ports import reserved_port

    directory = cluster.directory / "kueue"
    certificates = _write_etc(directory / "etc")
    with reserved_port() as probe, reserved_port() as webhook:
        file = directory / "config.json"
        file.write_text(json.dumps(_configuration(probe, webhook, certificates)))
        gates = ",".join(f"{gate}=false" for gate in _GATES_OFF)
        command = ["/usr/bin/env", f"KUBECONFIG={cluster.flags[1]}", "unshare", "--mount", "sh", "-euc", _MOUNT_AND_RUN]
        command += ["sh", str(directory / "etc"), str(find_program(PROGRAM)), f"--config={file}"]
        command += [f"--feature-gates={gates}"]
        with running_program(command, directory / "kueue.log", f"http://127.0.0.1:{probe}/readyz"):
            yield


def _write_etc(directory: Path) -> Path:
    """Write the files that Kueue reads from /etc; return the directory of its certificates."""
    import trustme

    certificates = directory / _CERTIFICATE
    certificates.mkdir(parents=True)
    for name in _RESOLVER_FILES:
        if (source := Path("/etc", name)).exists():
            shutil.copy(source, directory / name)
    certificate = trustme.CA().issue_cert("localhost", "127.0.0.1")
    certificate.private_key_pem.write_to_path(certificates / "tls.key")
    certificate.cert_chain_pems[0].write_to_path(certificates / "tls.crt")
    return certificates


def _configuration(probe: int, webhook: int, certificates: Path) -> dict[str, Any]:
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"127.0.0.1:{probe}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": webhook, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "clientConnection": {"qps": REQUESTS_PER_SECOND, "burst": BURST},
        "controller": {
            "groupKindConcurrency": {
                "Job.batch": 5,
                "Pod": 5,
                "Workload.kueue.x-k8s.io": 10,
                "LocalQueue.kueue.x-k8s.io": 5,
                "ClusterQueue.kueue.x-k8s.io": 5,
                "ResourceFlavor.kueue.x-k8s.io": 1,
            }
        },
        "integrations": {"frameworks": ["batch/job"]},
    }
