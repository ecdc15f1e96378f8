"""Generates the messages of the fakes from tests/support/e2e/protocol/*.proto; run it after changing these files.

It generates only messages: the fakes name services and methods themselves, so they need no generated stubs.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROTOCOL = Path(__file__).resolve().parents[1] / "support" / "e2e" / "protocol"


def generate(into: Path) -> list[Path]:
    """Write the generated code of all definitions into a directory; return its files, sorted."""
    subprocess.run(
        [
            sys.executable,
            *("-m", "grpc_tools.protoc", f"--proto_path={PROTOCOL}", f"--python_out={into}", f"--pyi_out={into}"),
            *(str(definition) for definition in sorted(PROTOCOL.glob("*.proto"))),
        ],
        check=True,
    )
    return sorted(into.glob("*_pb2.py*"))


if __name__ == "__main__":
    generate(PROTOCOL)
