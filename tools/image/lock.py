"""The lock of the Debian packages from which the images are built, by SHA-256, for each architecture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

LOCK = Path(__file__).with_name("debian.lock.json")
ARCHITECTURES = ("amd64", "arm64")


class Package(NamedTuple):
    """One Debian package."""

    name: str
    version: str
    architecture: str
    archive: str
    """The path of its archive on a mirror: "debian" or "debian-security"."""
    filename: str
    """Its path in the archive: "pool/main/z/zlib/zlib1g_1.3_amd64.deb"."""
    sha256: str
    size: int
    """Size in bytes."""


class Lock(NamedTuple):
    """All packages of the images."""

    suite: str
    snapshot: str
    """When the archives contained these packages, in the notation of snapshot.debian.org: "20261123T000000Z"."""
    packages: dict[str, tuple[Package, ...]]
    """Packages by architecture, sorted by name."""


def read_lock() -> Lock:
    """Return the packages of the lock file."""
    document = json.loads(LOCK.read_text())
    packages = {
        architecture: tuple(Package(**row) for row in rows) for architecture, rows in document["packages"].items()
    }
    return Lock(document["suite"], document["snapshot"], packages)


def write_lock(lock: Lock) -> None:
    """Write the lock file."""
    packages = {name: [package._asdict() for package in rows] for name, rows in lock.packages.items()}
    document = {"suite": lock.suite, "snapshot": lock.snapshot, "packages": packages}
    LOCK.write_text(json.dumps(document, indent=1) + "\n")
