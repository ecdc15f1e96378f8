"""The command line: `python -m tools.image build|lock`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from pathlib import Path

from tools.image.build import Paths, build
from tools.image.debian import renew_lock
from tools.image.lock import read_lock, write_lock
from tools.version import parse_version

PROJECT = Path(__file__).resolve().parent.parent.parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "zonewise-image"


def main(arguments: list[str] | None = None) -> int:
    """Build the images, or renew the lock; return the exit status."""
    parser = ArgumentParser(prog="python -m tools.image", description="Build the OCI images without a daemon.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("lock", help="renew tools/image/debian.lock.json; needs Debian's gpgv and dpkg")
    building = commands.add_parser("build", help="write the images of the agent and the scheduler")
    building.add_argument(
        "--version", required=True, type=parse_version, help="version of zonewise, as in a tag, such as 0.1.0"
    )
    building.add_argument(
        "--output", type=Path, default=PROJECT / "dist" / "images", help="directory to write to (default: dist/images)"
    )
    parsed = parser.parse_args(arguments)
    try:
        if parsed.command == "lock":
            write_lock(renew_lock())
        else:
            _build(parsed.version, parsed.output.resolve())
    except subprocess.CalledProcessError as error:
        print(f"image: error: {Path(error.cmd[0]).name} ended with status {error.returncode}", file=sys.stderr)
        return 2
    except (OSError, ValueError) as error:
        print(f"image: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def _build(version: str, output: Path) -> None:
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output, prefix=".build-") as directory:
        paths = Paths(PROJECT, PROJECT / ".bootstrap" / "bin" / "uv", output, Path(directory), CACHE)
        # https://reproducible-builds.org/specs/source-date-epoch/
        for line in build(paths, read_lock(), version, int(os.environ.get("SOURCE_DATE_EPOCH", "0"))):
            print(line)


if __name__ == "__main__":
    sys.exit(main())
