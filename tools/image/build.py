"""Builds both images for all architectures, and checks their size, libraries, user, and lack of a shell."""

from __future__ import annotations

import json
import platform
import shutil
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from tools.image.elf import missing_libraries
from tools.image.layout import Image, Layer, write_archive, write_layer, write_layout
from tools.image.lock import ARCHITECTURES
from tools.image.sbom import bill_of_materials
from tools.image.trees import (
    ENVIRONMENT,
    SITE_PACKAGES,
    USER,
    Compiler,
    build_wheel,
    install_dependencies,
    install_zonewise,
    unpack_debian,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tools.image.lock import Lock

SHELLS = ("sh", "bash", "dash", "busybox", "apt", "dpkg")


class Part(NamedTuple):
    """The purpose and the limits of an image."""

    extra: str
    """The extra of pyproject.toml whose dependencies the image contains."""
    name: str
    description: str
    command: tuple[str, ...]
    max_size: int
    """Maximum compressed size in bytes."""


PARTS = (
    Part("agent", "zonewise", "Publishes the available resources of a Kubernetes node by zone", ("agent",), 80 << 20),
    Part(
        "scheduler",
        "zonewise-scheduler",
        "Predicts which kubelets admit a pod, as an extender of kube-scheduler, and queues Jobs",
        ("scheduler", "--extender-only"),
        150 << 20,
    ),
)  # fmt: skip
ENVIRONMENT_VARIABLES = {
    # the level for which bytecode is compiled; and one heap for all threads, which are few: this saves 0.2 MiB
    "PYTHONOPTIMIZE": "2",
    "MALLOC_ARENA_MAX": "1",
    "PATH": f"/{ENVIRONMENT}/bin:/usr/bin",
}


class Paths(NamedTuple):
    """The paths that a build reads and writes."""

    project: Path
    uv: Path
    output: Path
    """Receives a layout, an archive and the bills of materials of each part; output of an earlier build is replaced."""
    work: Path
    """A new directory on the same file system as the output."""
    cache: Path


class _CompiledTree(NamedTuple):
    """The files of a layer, and the layer itself."""

    tree: Path
    layer: Layer


class _Shared(NamedTuple):
    """Parts that the images share."""

    paths: Paths
    lock: Lock
    version: str
    compiler: Compiler
    bases: dict[str, _CompiledTree]
    """Debian's Python, by architecture."""
    own: _CompiledTree
    """The layer of zonewise."""


def build(paths: Paths, lock: Lock, version: str, created: int) -> list[str]:
    """Build all images; return a line about each. `created` is in seconds since 1970.

    Raises OSError if a package cannot be fetched, and subprocess.CalledProcessError if uv or the image's Python fails.
    Raises ValueError if an image is too large, lacks a library or contains a shell, or if a package does not match the
    lock.
    """
    compiler = Compiler(paths.work / "compiler", _host_architecture())
    compiler.root.mkdir(parents=True)
    unpack_debian(compiler.root, lock, compiler.architecture, paths.cache)
    bases = {architecture: _build_base(paths, lock, architecture, compiler) for architecture in ARCHITECTURES}
    own = paths.work / "zonewise"
    install_zonewise(own, build_wheel(paths.work / "wheel", paths.uv, paths.project, version))
    shared = _Shared(paths, lock, version, compiler, bases, _compiled(own, compiler))
    return [line for part in PARTS for line in _build_part(part, shared, _timestamp(created))]


def _build_part(part: Part, shared: _Shared, created: str) -> list[str]:
    output = shared.paths.output
    _clear(output, part)
    images = [_build_image(part, architecture, shared) for architecture in ARCHITECTURES]
    digest = write_layout(output / part.name, images, created, _annotations(part, shared.version))
    write_archive(output / part.name, output / f"{part.name}.tar")
    return [_line(part, image, digest) for image in images]


def _build_image(part: Part, architecture: str, shared: _Shared) -> Image:
    """Build the image of a part for an architecture, check it, and write its bill of materials."""
    paths, base, own = shared.paths, shared.bases[architecture], shared.own
    tree = paths.work / f"{part.name}-{architecture}"
    install_dependencies(tree, paths.uv, paths.project, part.extra, architecture)
    dependencies = _compiled(tree, shared.compiler)
    image = Image(architecture, (base.layer, dependencies.layer, own.layer), _config(part))
    trees = (base.tree, tree, own.tree)
    check(part, image, trees)
    installed = [path for root in trees for path in (root / SITE_PACKAGES).glob("*.dist-info")]
    uv_lock = paths.project / "uv.lock"
    document = bill_of_materials(part.name, shared.version, shared.lock, architecture, installed, uv_lock)
    (paths.output / f"{part.name}-{architecture}.cdx.json").write_text(json.dumps(document, indent=1) + "\n")
    return image


def check(part: Part, image: Image, trees: Iterable[Path]) -> None:
    """Raise ValueError if an image differs from what the manifests and the documentation state."""
    trees = tuple(trees)
    if image.size > part.max_size:
        raise ValueError(f"{part.name} for {image.architecture} has {image.size} bytes, more than {part.max_size}")
    missing = missing_libraries(trees)
    if missing:
        lines = ", ".join(f"{library} for {file}" for file, library in sorted(missing))
        raise ValueError(f"{part.name} for {image.architecture} lacks {lines}")
    shells = [path for tree in trees for path in tree.rglob("bin/*") if path.name in SHELLS]
    if shells:
        raise ValueError(f"{part.name} for {image.architecture} has {shells[0].name}")


def _build_base(paths: Paths, lock: Lock, architecture: str, compiler: Compiler) -> _CompiledTree:
    tree = paths.work / f"base-{architecture}"
    tree.mkdir()
    unpack_debian(tree, lock, architecture, paths.cache)
    return _compiled(tree, compiler)


def _compiled(tree: Path, compiler: Compiler) -> _CompiledTree:
    compiler.compile(tree)
    return _CompiledTree(tree, write_layer(tree, tree.with_suffix(".tar.gz"), compiler.compress))


def _config(part: Part) -> dict[str, object]:
    return {
        "User": f"{USER}:{USER}",
        "Env": [f"{name}={value}" for name, value in ENVIRONMENT_VARIABLES.items()],
        "Entrypoint": [f"/{ENVIRONMENT}/bin/zonewise"],
        "Cmd": list(part.command),
        "WorkingDir": "/",
    }


def _annotations(part: Part, version: str) -> dict[str, str]:
    prefix = "org.opencontainers.image"
    return {
        f"{prefix}.title": part.name,
        f"{prefix}.description": part.description,
        f"{prefix}.version": version,
        f"{prefix}.licenses": "Apache-2.0",
    }


def _line(part: Part, image: Image, digest: str) -> str:
    sizes = f"{image.size / 1e6:6.1f} MB compressed, {image.unpacked / 1e6:6.1f} MB unpacked"
    return f"{part.name:18} {image.architecture:5}  {sizes}  {digest}"


def _timestamp(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _clear(output: Path, part: Part) -> None:
    shutil.rmtree(output / part.name, ignore_errors=True)
    (output / f"{part.name}.tar").unlink(missing_ok=True)
    output.mkdir(parents=True, exist_ok=True)


def _host_architecture() -> str:
    machine = platform.machine()
    architectures = {"x86_64": "amd64", "aarch64": "arm64"}
    if platform.system() != "Linux" or machine not in architectures:
        raise ValueError(f"images are built on Linux on amd64 or arm64, which {platform.system()} {machine} is not")
    return architectures[machine]
