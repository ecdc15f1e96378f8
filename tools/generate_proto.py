"""Generates the messages of the kubelet's APIs under agent/ from proto/: modules and types, without service stubs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
PROTO = PROJECT / "proto"


def generate(target: Path) -> int:
    """Write a _pb2.py and a _pb2.pyi for every definition below a source root; return protoc's exit status."""
    # the path relative to PROTO determines the module's imports and its name in protobuf's descriptor pool
    sources = sorted(str(file.relative_to(PROTO)) for file in PROTO.rglob("*.proto"))
    options = [f"--proto_path={PROTO}", f"--python_out={target}", f"--pyi_out={target}"]
    return subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *options, *sources], check=False).returncode


if __name__ == "__main__":
    sys.exit(generate(PROJECT / "agent"))
