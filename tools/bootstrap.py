"""Installs uv into .bootstrap/ with only Python and a network connection; the Makefile runs it on a fresh machine.

It runs on Python 3.9 or later, with or without pip and ensurepip: Debian, for example, ships python3 without both. Then
uv installs the dependencies of uv.lock. If this Python is too old for the project, uv installs a newer one.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
import venv
from pathlib import Path

UV = "uv==0.13.8"
PIP = "pip-25.0.1-py3-none-any.whl"
PIP_SHA256 = "c46efd13b6aa8279f33f2864459c8ce587ea6a1a59ee20de055868d8f7688f7f"
HOME = Path(__file__).resolve().parent.parent / ".bootstrap"


def main() -> int:
    """Install uv; return the exit status."""
    print(f"setting up {UV} in {HOME.name}/ ...", file=sys.stderr)
    try:
        _install_uv()
    except (OSError, subprocess.CalledProcessError, ValueError) as error:
        print(f"bootstrap: error: {error}", file=sys.stderr)
        print("bootstrap: this needs a Python of 3.9 or later and an index of Python packages", file=sys.stderr)
        return 2
    return 0


def _install_uv() -> None:
    python = HOME / "bin" / "python"
    venv.create(HOME, with_pip=False, clear=True)
    if _has_ensurepip():
        subprocess.run([python, "-m", "ensurepip", "--default-pip"], check=True, stdout=subprocess.DEVNULL)
        _pip_install([python, "-m", "pip"])
        return
    with tempfile.TemporaryDirectory() as directory:
        wheel = Path(directory) / PIP
        wheel.write_bytes(_pip_wheel())
        _pip_install([python, wheel / "pip"])  # pip can be run directly from its wheel


def _has_ensurepip() -> bool:
    try:
        import ensurepip
    except ImportError:
        return False
    return bool(ensurepip.version())


def _pip_install(pip: list[str | Path]) -> None:
    subprocess.run([*pip, "install", "--quiet", "--disable-pip-version-check", UV], check=True)


def _pip_wheel() -> bytes:
    index = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/") + "/pip/"
    page = _download(index).decode()
    link = re.search(rf'href="([^"#]*{re.escape(PIP)})', page)
    if not link:
        raise ValueError(f"{index} does not offer {PIP}")
    content = _download(urllib.parse.urljoin(index, link[1]))
    if hashlib.sha256(content).hexdigest() != PIP_SHA256:
        raise ValueError(f"{PIP} from {index} is not the file that was pinned")
    return content


def _download(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=60) as response:  # noqa: S310 -- the index is the user's own setting
        content: bytes = response.read()
    return content


if __name__ == "__main__":
    sys.exit(main())
