"""`python -m zonewise_sandbox.apiserver`: an API server in memory."""

from __future__ import annotations

import argparse
import sys

from zonewise_common.service.stop_signals import stop_event
from zonewise_sandbox.apiserver import ApiServer


def main() -> int:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m zonewise_sandbox.apiserver", description=__doc__)
    parser.add_argument("--port", type=int, default=8001, help="port on 127.0.0.1; 0 for any free one (default: 8001)")
    parser.add_argument(
        "--crd", action="append", default=[], metavar="FILE", nargs="+", help="YAML files of CustomResourceDefinitions"
    )
    parser.add_argument("--token", help="bearer token that requests must have")
    arguments = parser.parse_args()
    files = [file for group in arguments.crd for file in group]
    stop = stop_event()
    with ApiServer(arguments.port, crds=files, token=arguments.token) as server:
        sys.stdout.write(f"{server.url}\nkubectl --server {server.url} get nodes\n")
        sys.stdout.flush()
        stop.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
