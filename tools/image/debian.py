"""Debian's archive: the packages that an image needs, their locations and their files.

The lock is renewed on a Debian machine: `gpgv` checks the signature of each Release file, and `dpkg` compares versions.
A build needs neither. Formats: https://wiki.debian.org/DebianRepository/Format, deb-control(5), deb(5).
"""

from __future__ import annotations

import hashlib
import io
import lzma
import re
import subprocess
import tarfile
import urllib.error
import urllib.request
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tools.image.lock import ARCHITECTURES, Lock, Package

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SUITE = "trixie"
MIRROR = "http://deb.debian.org"
"""Debian's own mirror. Plain HTTP suffices: every file is checked against a signature or a hash."""
SNAPSHOT = "http://snapshot.debian.org/archive"
"""Contains files that the mirror no longer has."""
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
ROOTS = ("python3.13-minimal", "libpython3.13-stdlib", "libstdc++6", "pci.ids")
"""Python, the C++ library for the wheels of RE2 and NumPy, and the names of PCI devices."""
LEFT_OUT = {
    "libdb5.3t64": "dbm is not used",
    "libncursesw6": "curses is not used",
    "libreadline8t64": "a container has no terminal",
    "libsqlite3-0": "sqlite3 is not used",
    "libtinfo6": "curses is not used",
    "media-types": "mimetypes has a table of its own",
    "netbase": "services are named by port",
    "openssl-provider-legacy": "TLS needs no legacy algorithm",
    "tzdata": "all times are UTC",
}
"""Dependencies that no image contains, with the reason."""
_TIMEOUT = 60.0

Stanza = dict[str, str]


def renew_lock() -> Lock:
    """Return the newest packages of the suite, including security updates.

    Raises OSError if a file cannot be fetched, and ValueError if a signature or a hash is wrong. Raises
    subprocess.CalledProcessError if gpgv rejects a signature.
    """
    packages = {
        architecture: closure(_newest(_index(archive, suite, architecture) for archive, suite in _suites()))
        for architecture in ARCHITECTURES
    }
    return Lock(SUITE, datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ"), packages)


def closure(index: dict[str, Stanza]) -> tuple[Package, ...]:
    """Return ROOTS and all their dependencies except LEFT_OUT, sorted by name.

    Of alternatives (`a | b`) the first counts.

    Raises ValueError if the index lacks a package.
    """
    names: set[str] = set()
    waiting = [*ROOTS]
    while waiting:
        name = waiting.pop()
        if name in names or name in LEFT_OUT:
            continue
        if name not in index:
            raise ValueError(f"the index of {SUITE} lacks {name}")
        names.add(name)
        waiting += _dependencies(index[name])
    return tuple(_package(index[name]) for name in sorted(names))


def parse_index(text: str) -> list[Stanza]:
    """Return the stanzas of a Packages file, without continuation lines."""
    return [
        dict(line.split(": ", 1) for line in stanza.splitlines() if re.match(r"[A-Za-z0-9-]+: ", line))
        for stanza in text.split("\n\n")
        if stanza.strip()
    ]


def fetch_package(package: Package, snapshot: str, cache: Path) -> bytes:
    """Return a package's file, from the cache or a server.

    Raises OSError if no server has it, ValueError if it does not match the lock.
    """
    file = cache / package.sha256
    if file.exists():
        content = file.read_bytes()
        if _sha256(content) == package.sha256:
            return content
    content = _fetch_first(
        f"{MIRROR}/{package.archive}/{package.filename}",
        f"{SNAPSHOT}/{package.archive}/{snapshot}/{package.filename}",
    )
    _check(package.filename, content, package.sha256)
    cache.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return content


def open_data(content: bytes) -> tarfile.TarFile:
    """Return the files of a package, which is a `!<arch>` archive with a member data.tar.xz (deb(5))."""
    return _member_of(content, "data.tar")


def control_of(content: bytes) -> str:
    """Return the stanza of a package, as dpkg stores it in /var/lib/dpkg/status."""
    with _member_of(content, "control.tar") as archive:
        file = archive.extractfile("./control")
        if file is None:
            raise ValueError("a package without a control file")
        return file.read().decode()


def _suites() -> tuple[tuple[str, str], ...]:
    """Return the archives with their suites."""
    return ("debian", SUITE), ("debian", f"{SUITE}-updates"), ("debian-security", f"{SUITE}-security")


def _index(archive: str, suite: str, architecture: str) -> list[Stanza]:
    """Return the packages of a suite, verified by its signature; each has the added key "Archive"."""
    base = f"{MIRROR}/{archive}/dists/{suite}"
    name = f"main/binary-{architecture}/Packages.xz"
    # gpgv writes only the signed part of the file
    command = ["gpgv", "--quiet", "--output", "-", "--keyring", KEYRING]
    release = subprocess.run(
        command, input=_fetch(f"{base}/InRelease"), check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ).stdout.decode()
    [digest] = re.findall(rf"^ ([0-9a-f]{{64}}) +\d+ {re.escape(name)}$", release, re.MULTILINE)
    content = _fetch(f"{base}/{name}")
    _check(name, content, digest)
    return [{**stanza, "Archive": archive} for stanza in parse_index(lzma.decompress(content).decode())]


def _newest(indices: Iterable[list[Stanza]]) -> dict[str, Stanza]:
    newest: dict[str, Stanza] = {}
    for index in indices:
        for stanza in index:
            name = stanza["Package"]
            if name not in newest or _is_newer(stanza["Version"], newest[name]["Version"]):
                newest[name] = stanza
    return newest


def _is_newer(version: str, than: str) -> bool:
    return subprocess.run(["dpkg", "--compare-versions", version, "gt", than], check=False).returncode == 0


def _dependencies(stanza: Stanza) -> list[str]:
    fields = [stanza.get("Pre-Depends", ""), stanza.get("Depends", "")]
    return [re.split(r"[ :(|]", part.strip(), maxsplit=1)[0] for part in ",".join(fields).split(",") if part.strip()]


def _package(stanza: Stanza) -> Package:
    return Package(
        stanza["Package"],
        stanza["Version"],
        stanza["Architecture"],
        stanza["Archive"],
        stanza["Filename"],
        stanza["SHA256"],
        int(stanza["Size"]),
    )


def _member_of(content: bytes, prefix: str) -> tarfile.TarFile:
    """Return a tar archive from an ar archive: 60-byte headers, contents aligned to 2 bytes."""
    position = len(b"!<arch>\n")
    while position < len(content):
        header = content[position : position + 60]
        size = int(header[48:58])
        if header[:16].decode().startswith(prefix):
            return tarfile.open(fileobj=io.BytesIO(content[position + 60 : position + 60 + size]))
        position += 60 + size + size % 2
    raise ValueError(f"a package without {prefix}")


def _fetch_first(*urls: str) -> bytes:
    errors: list[str] = []
    for url in urls:
        try:
            return _fetch(url)
        except urllib.error.URLError as error:
            errors.append(f"{url}: {error}")
    raise OSError("; ".join(errors))


def _fetch(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=_TIMEOUT) as response:  # noqa: S310 -- http, of the constants above
        content: bytes = response.read()
    return content


def _check(name: str, content: bytes, digest: str) -> None:
    if _sha256(content) != digest:
        raise ValueError(f"{name} has the SHA-256 {_sha256(content)}, expected {digest}")


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
