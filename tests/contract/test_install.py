"""An installation as a service: complete, runnable, and with compiled bytecode."""

from __future__ import annotations

import subprocess
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from support.snapshots import PROJECT

UV = PROJECT / ".bootstrap" / "bin" / "uv"


@pytest.mark.skipif(not UV.exists(), reason="the tests were not started by `make test`, so uv is not set up")
def test_service_install_is_compiled(tmp_path: Path) -> None:
    """Every module has its bytecode next to it: on a read-only root file system, nothing could compile it later."""
    prefix = tmp_path / "zonewise"
    command = ["make", "--no-print-directory", "install", f"PREFIX={prefix}"]
    subprocess.run(command, cwd=PROJECT, check=True, capture_output=True, timeout=100)
    answer = subprocess.run([prefix / "bin" / "zonewise", "--version"], check=True, capture_output=True, text=True)
    packages = next((prefix / "lib").glob("python3.*")) / "site-packages"
    [metadata] = packages.glob("zonewise-*.dist-info")
    assert metadata.name == f"zonewise-{answer.stdout.split()[-1]}.dist-info"
    roots = ("zonewise", "zonewise_common", "zonewise_scheduler")
    modules = [file for root in roots for file in (packages / root).rglob("*.py")]
    assert len(modules) >= sum(len([*(PROJECT / root).rglob("*.py")]) for root in ("agent", "common", "scheduler"))
    tag = subprocess.run(
        [prefix / "bin" / "python", "-c", "import sys; print(sys.implementation.cache_tag)"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    missing = [
        module
        for module in modules
        if not Path(cache_from_source(str(module))).with_name(f"{module.stem}.{tag}.pyc").exists()
    ]
    assert missing == []
