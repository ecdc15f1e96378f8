"""The committed code for the fakes' messages is the code that their definitions generate."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path

import pytest

GENERATOR = "1.76.0"
HERE = Path(__file__).resolve().parent


def test_generated_code_is_up_to_date(tmp_path: Path) -> None:
    """Another run generates the same files, byte for byte."""
    try:
        found = importlib.metadata.version("grpcio-tools")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("grpcio-tools is not installed")
    if found != GENERATOR:
        pytest.skip(f"grpcio-tools is {found}, the committed code is of {GENERATOR}")
    spec = importlib.util.spec_from_file_location("generate", HERE / "generate.py")
    assert spec
    assert spec.loader
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    made = {file.name: file.read_bytes() for file in generate.generate(tmp_path)}
    assert made == {file.name: file.read_bytes() for file in generate.PROTOCOL.glob("*_pb2.py*")}
    assert len(made) == 4
