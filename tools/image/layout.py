"""Writes an OCI image layout (github.com/opencontainers/image-spec, image-layout.md): equal trees give equal digests.

The files of a layer are sorted, belong to root, and have the time 0. The caller supplies the compression.
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import tarfile
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

_INDEX = "application/vnd.oci.image.index.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"

Json = dict[str, Any]


class Layer(NamedTuple):
    """One layer of an image."""

    file: Path
    """The compressed file."""
    digest: str
    """SHA-256 of the compressed file, in hexadecimal digits."""
    size: int
    """Compressed size in bytes."""
    diff_id: str
    """SHA-256 of the tar file."""
    unpacked: int
    """Size of the tar file in bytes."""


class Image(NamedTuple):
    """An image for one architecture."""

    architecture: str
    layers: tuple[Layer, ...]
    config: Json
    """The configuration with which a container starts: User, Env, Entrypoint, Cmd, Labels."""

    @property
    def size(self) -> int:
        """Return the number of bytes that a node fetches."""
        return sum(layer.size for layer in self.layers)

    @property
    def unpacked(self) -> int:
        """Return the number of bytes that a node stores."""
        return sum(layer.unpacked for layer in self.layers)


def write_layer(tree: Path, file: Path, compress: Callable[[Path, Path], None]) -> Layer:
    """Write a tree as a compressed layer."""
    tar = file.with_suffix(".tar")
    with tarfile.open(tar, "w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(tree.rglob("*")):
            archive.add(path, path.relative_to(tree).as_posix(), recursive=False, filter=_normalized)
    diff_id, unpacked = _digest(tar)
    compress(tar, file)
    tar.unlink()
    digest, size = _digest(file)
    return Layer(file, digest, size, diff_id, unpacked)


def write_layout(directory: Path, images: Sequence[Image], created: str, annotations: Mapping[str, str]) -> str:
    """Write an image for several architectures; return the digest of its index, "sha256:..."."""
    blobs = directory / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    manifests = [_write_image(blobs, image, created, annotations) for image in images]
    index = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": manifests, "annotations": dict(annotations)}
    entry = _blob(blobs, _INDEX, index)
    version = annotations["org.opencontainers.image.version"]
    top = {"schemaVersion": 2, "manifests": [{**entry, "annotations": {"org.opencontainers.image.ref.name": version}}]}
    (directory / "index.json").write_text(json.dumps(top))
    (directory / "oci-layout").write_text(json.dumps({"imageLayoutVersion": "1.0.0"}))
    return entry["digest"]


def write_archive(directory: Path, file: Path) -> None:
    """Write a layout as one file, which `podman load`, `ctr image import` and `skopeo` read."""
    with tarfile.open(file, "w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(directory.rglob("*")):
            archive.add(path, path.relative_to(directory).as_posix(), recursive=False, filter=_normalized)


def _write_image(blobs: Path, image: Image, created: str, annotations: Mapping[str, str]) -> Json:
    layers: list[Json] = []
    for layer in image.layers:
        target = blobs / layer.digest
        if not target.exists():
            target.hardlink_to(layer.file)
        layers.append({"mediaType": _LAYER, "digest": f"sha256:{layer.digest}", "size": layer.size})
    config = {
        "created": created,
        "architecture": image.architecture,
        "os": "linux",
        "config": {**image.config, "Labels": dict(annotations)},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer.diff_id}" for layer in image.layers]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": _blob(blobs, _CONFIG, config),
        "layers": layers,
        "annotations": dict(annotations),
    }
    platform = {"architecture": image.architecture, "os": "linux"}
    return {**_blob(blobs, _MANIFEST, manifest), "platform": platform}


def _blob(blobs: Path, media_type: str, document: Json) -> Json:
    content = json.dumps(document, sort_keys=True).encode()
    digest = hashlib.sha256(content).hexdigest()
    (blobs / digest).write_bytes(content)
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}


def _normalized(member: tarfile.TarInfo) -> tarfile.TarInfo:
    executable = member.isdir() or member.issym() or member.mode & 0o100
    normalized = copy.copy(member)  # TarInfo.replace() was added in Python 3.11.4, but Debian 12 has 3.11.2
    normalized.mtime, normalized.mode = 0, 0o755 if executable else 0o644
    normalized.uid, normalized.gid, normalized.uname, normalized.gname = 0, 0, "", ""
    return normalized


def _digest(file: Path) -> tuple[str, int]:
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        return digest, stream.seek(0, io.SEEK_END)
