"""The command line: `python -m tools.chart --version 0.1.0`."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
import tarfile
from argparse import ArgumentParser
from pathlib import Path

from tools.chart.chart import NAME, OWN_IMAGES, all_parts, chart_files, semantic
from tools.chart.renderings import MANIFESTS, PARTS, render_text
from tools.version import parse_version


def main(arguments: list[str] | None = None) -> int:
    """Write the chart and the files for `kubectl apply -f`; return the exit status."""
    parser = ArgumentParser(prog="python -m tools.chart", description="Build the Helm chart and install*.yaml.")
    parser.add_argument(
        "--version", required=True, type=parse_version, help="version of zonewise and its images, such as 0.1.0"
    )
    parser.add_argument("--registry", default="", help="registry of the images, such as ghcr.io/example")
    parser.add_argument(
        "--output", type=Path, default=MANIFESTS.parent / "dist", help="directory to write to (default: dist)"
    )
    parsed = parser.parse_args(arguments)
    registry = f"{parsed.registry.rstrip('/')}/" if parsed.registry else ""
    try:
        parsed.output.mkdir(parents=True, exist_ok=True)
        for name, content in release_files(parsed.version, registry).items():
            (parsed.output / name).write_bytes(content)
            print(f"{name:24} {len(content):8} bytes")
    except subprocess.CalledProcessError as error:
        print(f"chart: error: {Path(error.cmd[0]).name} ended with status {error.returncode}", file=sys.stderr)
        return 2
    except (OSError, ValueError) as error:
        print(f"chart: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def release_files(version: str, registry: str) -> dict[str, bytes]:
    """Return the content of each file of a release, by name; `registry` ends with a slash or is empty."""
    files = {part.install: install_file(part.default, version, registry).encode() for part in PARTS}
    chart = {f"{NAME}/{name}": text.encode() for name, text in chart_files(all_parts(), version, registry)}
    return files | {f"{NAME}-{semantic(version)}.tgz": _archive(chart)}


def install_file(kustomization: str, version: str, registry: str) -> str:
    """Return one file for `kubectl apply -f`."""
    images = [{"name": name, "newName": f"{registry}{name}", "newTag": version} for name in OWN_IMAGES]
    return f"# zonewise {version}: manifests/{kustomization}\n---\n" + render_text(kustomization, [], images)


def _archive(files: dict[str, bytes]) -> bytes:
    """Return a compressed tar archive without times, so equal files give equal bytes."""
    stream = io.BytesIO()
    with (
        gzip.GzipFile("", "wb", 9, stream, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


if __name__ == "__main__":
    sys.exit(main())
