"""The committed code for the kubelet's messages is the code that its definitions generate."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from typing import TYPE_CHECKING

import pytest

from support.snapshots import PROJECT

if TYPE_CHECKING:
    from pathlib import Path

GENERATOR = "1.76.0"


def generate(target: Path) -> int:
    """Run tools/generate_proto.py, which does not belong to a package."""
    spec = importlib.util.spec_from_file_location("generate_proto", PROJECT / "tools" / "generate_proto.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.generate(target)


def generated_files(root: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(root)): file.read_bytes()
        for pattern in ("*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py")
        for file in root.rglob(pattern)
    }


def installed_generator() -> str | None:
    try:
        return importlib.metadata.version("grpcio-tools")
    except importlib.metadata.PackageNotFoundError:
        return None


@pytest.mark.skipif(installed_generator() != GENERATOR, reason=f"grpcio-tools {GENERATOR} is not installed")
def test_generated_code_is_up_to_date(tmp_path: Path) -> None:
    """Another run generates exactly the same files, byte for byte."""
    assert generate(tmp_path) == 0
    made = generated_files(tmp_path)
    assert made == generated_files(PROJECT / "agent")
    assert len(made) == 4
