"""The images: their content, their commands, and equal bytes from two builds; the long tests build and run them."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from benchmarks.support.agent_testbed import SERVICE
from support.manifests import parsed
from support.snapshots import PROJECT
from tools.image import trees
from tools.image.build import ENVIRONMENT_VARIABLES, PARTS, Part
from tools.image.debian import LEFT_OUT, MIRROR, ROOTS, closure, control_of, open_data, parse_index
from tools.image.elf import missing_libraries, needed_libraries
from tools.image.layout import Image, write_archive, write_layer, write_layout
from tools.image.lock import ARCHITECTURES, read_lock
from tools.image.sbom import bill_of_materials
from zonewise.machine.pci_names import PCI_IDS

if TYPE_CHECKING:
    from collections.abc import Iterator

PYPROJECT = tomllib.loads((PROJECT / "pyproject.toml").read_text())
VERSION = "1.2.3"
PACKAGES = """\
Package: python3.13-minimal
Version: 3.13.5-2
Architecture: amd64
Filename: pool/main/p/python.deb
Size: 10
SHA256: aa
Pre-Depends: libc6 (>= 2.38)
Depends: libpython3.13-minimal (= 3.13.5-2) | other, zlib1g:any
Description: of several
 lines

Package: libpython3.13-stdlib
Version: 3.13.5-2
Architecture: amd64
Filename: pool/main/p/stdlib.deb
Size: 10
SHA256: bb
Depends: tzdata, libsqlite3-0

"""
"""Packages of a suite; libc6 and others are added below."""

each_part = pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)


def stanzas(**more: str) -> dict[str, dict[str, str]]:
    """Return an index with packages that have no further dependencies."""
    index = {stanza["Package"]: {**stanza, "Archive": "debian"} for stanza in parse_index(PACKAGES)}
    plain = {"Version": "1", "Architecture": "amd64", "Filename": "f", "Size": "1", "SHA256": "cc", "Archive": "debian"}
    names = ("libc6", "libpython3.13-minimal", "zlib1g", "libstdc++6", "pci.ids")
    return index | {name: {"Package": name, **plain, **more} for name in names}


def copy(tar: Path, file: Path) -> None:
    """Copy the file instead of compressing it."""
    shutil.copy(tar, file)


# --- packages


def test_closure_follows_dependencies_except_omitted_ones() -> None:
    names = [package.name for package in closure(stanzas())]
    python = ["libpython3.13-minimal", "libpython3.13-stdlib", "libstdc++6"]
    assert names == ["libc6", *python, "pci.ids", "python3.13-minimal", "zlib1g"]


def test_closure_names_the_package_that_is_missing() -> None:
    index = stanzas(Depends="libnew1 (>= 2)")
    with pytest.raises(ValueError, match="lacks libnew1"):
        closure(index)


def test_the_lock_is_complete() -> None:
    """All architectures have the same packages, each from Debian's archive with its hash, and no omitted one."""
    lock = read_lock()
    assert set(lock.packages) == set(ARCHITECTURES)
    names = {architecture: {package.name for package in rows} for architecture, rows in lock.packages.items()}
    assert names["amd64"] == names["arm64"] >= set(ROOTS)
    assert not names["amd64"] & LEFT_OUT.keys()
    for architecture, rows in lock.packages.items():
        for package in rows:
            assert re.fullmatch(r"[0-9a-f]{64}", package.sha256), package
            assert package.archive in {"debian", "debian-security"}
            assert package.filename.startswith("pool/")
            assert package.architecture in {architecture, "all"}
    assert MIRROR == "http://deb.debian.org"


def test_a_package_is_read_as_dpkg_reads_it() -> None:
    """Members of an ar archive begin at even positions."""

    def tar(name: str, content: bytes) -> bytes:
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w:xz") as archive:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        return stream.getvalue()

    def member(name: str, content: bytes) -> bytes:
        return (
            f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode()
            + content
            + b"\n" * (len(content) % 2)
        )

    content = (
        b"!<arch>\n" + member("debian-binary", b"2.0") + member("control.tar.xz", tar("./control", b"Package: x\n"))
    )
    content += member("data.tar.xz", tar("./usr/x", b"odd"))
    assert control_of(content) == "Package: x\n"
    with open_data(content) as archive:
        assert archive.getnames() == ["./usr/x"]


# --- layers


def some_tree(directory: Path, mode: int, time: int) -> Path:
    (directory / "usr").mkdir(parents=True)
    (directory / "link").symlink_to("usr")
    for name in ("b", "a"):
        file = directory / "usr" / name
        file.write_text(name)
        file.chmod(mode)
        os.utime(file, (time, time))
    return directory


def test_equal_trees_have_one_digest(tmp_path: Path) -> None:
    """A layer does not record owners and times, nor permissions that the umask has removed."""
    layers = [
        write_layer(some_tree(tmp_path / str(mode), mode, time), tmp_path / f"{mode}.tar.gz", copy)
        for mode, time in ((0o644, 1), (0o600, 2))
    ]
    assert layers[0].digest == layers[1].digest
    with tarfile.open(layers[0].file) as archive:
        assert archive.getnames() == ["link", "usr", "usr/a", "usr/b"]
        assert {(member.uid, member.mtime) for member in archive} == {(0, 0)}


def test_an_executable_remains_executable(tmp_path: Path) -> None:
    layer = write_layer(some_tree(tmp_path / "tree", 0o700, 1), tmp_path / "layer.tar.gz", copy)
    with tarfile.open(layer.file) as archive:
        assert archive.getmember("usr/a").mode == 0o755


def test_each_blob_of_a_layout_has_its_digest(tmp_path: Path) -> None:
    """Every blob can be reached from index.json, with its digest and size, for both architectures."""
    layer = write_layer(some_tree(tmp_path / "tree", 0o644, 1), tmp_path / "layer.tar.gz", copy)
    images = [Image(architecture, (layer,), {"User": "1:1"}) for architecture in ARCHITECTURES]
    annotations = {"org.opencontainers.image.version": VERSION}
    digest = write_layout(tmp_path / "layout", images, "1970-01-01T00:00:00Z", annotations)
    reached = set(descend(tmp_path / "layout"))
    assert digest in reached
    assert {f"sha256:{file.name}" for file in (tmp_path / "layout/blobs/sha256").iterdir()} == reached
    write_archive(tmp_path / "layout", tmp_path / "layout.tar")
    with tarfile.open(tmp_path / "layout.tar") as archive:
        assert {"oci-layout", "index.json"} <= set(archive.getnames())


def descend(layout: Path, name: str = "index.json") -> Iterator[str]:
    """Yield and check the digest of each blob below a document."""
    document = json.loads((layout / name).read_text())
    for entry in [*document.get("manifests", ()), *document.get("layers", ()), *filter(None, [document.get("config")])]:
        if "digest" not in entry:
            continue
        yield entry["digest"]
        blob = f"blobs/sha256/{entry['digest'].removeprefix('sha256:')}"
        content = (layout / blob).read_bytes()
        assert len(content) == entry["size"]
        if entry["mediaType"].endswith("+json") and "config" not in entry["mediaType"]:
            yield from descend(layout, blob)


def test_libraries_are_read_from_elf_files(tmp_path: Path) -> None:
    """The Python interpreter of the tests needs the C library; a text file needs nothing."""
    real = Path(sys.executable).resolve()
    (tmp_path / "text").write_text("no ELF file")
    assert needed_libraries(tmp_path / "text") == []
    libraries = needed_libraries(real)
    assert "libc.so.6" in libraries
    shutil.copy(real, tmp_path / "python")
    (tmp_path / "libc.so.6").write_text("")
    assert missing_libraries([tmp_path]) == {("python", name) for name in libraries if name != "libc.so.6"}


# --- commands and environment


def test_benchmarks_use_the_environment_of_the_image() -> None:
    assert SERVICE.items() <= ENVIRONMENT_VARIABLES.items()
    assert trees.PYTHON == "3.13"
    lowest = PYPROJECT["project"]["requires-python"].removeprefix(">=")
    assert tuple(map(int, trees.PYTHON.split("."))) >= tuple(map(int, lowest.split(".")))


def test_no_manifest_disables_bytecode() -> None:
    assert [file for file in (PROJECT / "manifests").rglob("*.yaml") if "DONTWRITEBYTECODE" in file.read_text()] == []


@each_part
def test_each_image_starts_its_part(part: Part) -> None:
    """The program has the command, which accepts its arguments; an extra installs its dependencies."""
    assert part.command[0] == part.extra
    parsed([*part.command])
    assert part.extra in PYPROJECT["project"]["optional-dependencies"]


def test_the_manifests_start_the_images() -> None:
    """The Deployment has the default command of the scheduler's image."""
    deployment = yaml.safe_load((PROJECT / "manifests/scheduler/base/deployment.yaml").read_text())
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    assert tuple(container["args"]) == PARTS[1].command


def test_mounts_of_the_manifests_have_a_directory() -> None:
    """On a read-only root file system, a runtime cannot create the mount points below /host."""
    daemonset = yaml.safe_load((PROJECT / "manifests/base/daemonset/daemonset.yaml").read_text())
    [container] = daemonset["spec"]["template"]["spec"]["containers"]
    [root] = [argument.removeprefix("--root=") for argument in container["args"] if argument.startswith("--root=")]
    assert root.lstrip("/") in trees.DIRECTORIES
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert f"{root}/proc" not in mounts
    assert f"{root}/sys" in mounts


def test_a_bill_of_materials_has_every_package_by_its_hash(tmp_path: Path) -> None:
    lock = read_lock()
    metadata = tmp_path / "some_thing-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Name: some_thing\nVersion: 1.0\nLicense-Expression: MIT\n")
    (metadata / "WHEEL").write_text("Wheel-Version: 1.0\nTag: py2-none-any\nTag: py3-none-any\n")
    uv = tmp_path / "uv.lock"
    uv.write_text(
        '[[package]]\nname = "some-thing"\nversion = "1.0"\n'
        'wheels = [{ url = "https://x/some_thing-1.0-py2.py3-none-any.whl", hash = "sha256:dd" }]\n'
    )
    document = bill_of_materials("zonewise", VERSION, lock, "amd64", [metadata], uv)
    components = {component["name"]: component for component in document["components"]}
    assert components.keys() == {package.name for package in lock.packages["amd64"]} | {"some-thing"}
    assert components["some-thing"]["hashes"] == [{"alg": "SHA-256", "content": "dd"}]
    assert components["some-thing"]["licenses"] == [{"expression": "MIT"}]
    assert len({component["bom-ref"] for component in components.values()}) == len(components)
    assert document == bill_of_materials("zonewise", VERSION, lock, "amd64", [metadata], uv)
    uv.write_text("package = []\n")
    with pytest.raises(ValueError, match=r"uv.lock has no wheel of some-thing 1\.0"):
        bill_of_materials("zonewise", VERSION, lock, "amd64", [metadata], uv)


# --- built and run


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the images, built twice."""
    if not (PROJECT / ".bootstrap" / "bin" / "uv").exists():
        pytest.skip("the tests were not started by `make test`, so uv is not set up")
    directories = tmp_path_factory.mktemp("first"), tmp_path_factory.mktemp("second")
    for directory in directories:
        command = [sys.executable, "-m", "tools.image", "build", "--version", VERSION, "--output", str(directory)]
        result = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False, timeout=1500)
        if "urlopen error" in result.stderr:
            pytest.skip(f"no package server: {result.stderr}")
        assert result.returncode == 0, result.stderr
    return directories


@pytest.mark.long
@each_part
def test_two_builds_have_one_digest(built: tuple[Path, Path], part: Part) -> None:
    first, second = built
    for name in (f"{part.name}/index.json", f"{part.name}.tar", *(f"{part.name}-{a}.cdx.json" for a in ARCHITECTURES)):
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


@pytest.mark.long
@each_part
def test_both_architectures_are_within_their_size(built: tuple[Path, Path], part: Part) -> None:
    images = dict(manifests_of(built[0] / part.name))
    assert images.keys() == set(ARCHITECTURES)
    for manifest in images.values():
        assert sum(layer["size"] for layer in manifest["layers"]) <= part.max_size


@pytest.mark.long
@each_part
def test_an_image_runs_as_a_user_on_a_read_only_root(built: tuple[Path, Path], part: Part, tmp_path: Path) -> None:
    """In plain namespaces: no shell, a read-only root, the version of the build, and all modules can be imported."""
    layout = built[0] / part.name
    manifest = dict(manifests_of(layout))["amd64"]
    config = document_of(layout, manifest["config"])["config"]
    root = tmp_path / "root"
    for layer in manifest["layers"]:
        with tarfile.open(blob_of(layout, layer)) as archive:
            archive.extractall(root, filter="fully_trusted")  # noqa: S202 -- our own layer
    assert not [*root.rglob("bin/*sh"), *root.rglob("bin/dpkg")]
    assert "GH100" in (root / PCI_IDS[0]).read_text(), "names of devices"
    user = config["User"].partition(":")[0]
    assert user == str(trees.USER)
    [program] = config["Entrypoint"]
    assert run_inside(root, config, program, "--version") == f"zonewise {VERSION}\n"
    if part.extra == "agent":
        assert "zone" in run_inside(root, config, program, "show").lower()
    assert part.extra in run_inside(root, config, program, part.extra, "--help")
    main = {"agent": "zonewise.daemon.main", "scheduler": "zonewise_scheduler.extender.main"}[part.extra]
    probe = f"import os, {main} as m; print(os.getuid(), m.__cached__)\n"
    probe += "try: open('/x', 'w')\nexcept OSError as error: print(error)"
    uid, cached, *error = run_inside(root, config, "/opt/zonewise/bin/python", "-c", probe).split(maxsplit=2)
    assert uid == user
    assert (root / cached.lstrip("/")).exists()
    assert "Read-only file system" in error[0]


def run_inside(root: Path, config: dict[str, Any], *command: str) -> str:
    """Run a program in new user and mount namespaces, with the root file system of an image; return its output."""
    mounts = (
        f"mount --bind {root} {root} && mount --rbind /proc {root}/proc && mount --rbind /sys {root}/sys"
        f" && mount -o remount,ro,bind {root} && exec \"$@\""
    )  # fmt: skip
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("no unshare")
    user = config["User"].partition(":")[0]
    outer = [unshare, "--map-root-user", "--mount", "sh", "-c", mounts, "sh"]
    inner = ["env", "-i", *config["Env"], unshare, "--user", f"--map-user={user}", f"--map-group={user}"]
    result = subprocess.run(
        [*outer, *inner, f"--root={root}", "--wd=/", *command], capture_output=True, text=True, check=False, timeout=60
    )
    if "Operation not permitted" in result.stderr and result.returncode == 1:
        pytest.skip(f"no user namespaces: {result.stderr}")
    assert result.returncode == 0, result.stderr
    return result.stdout


def manifests_of(layout: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the manifest of each architecture."""
    [top] = json.loads((layout / "index.json").read_text())["manifests"]
    for entry in document_of(layout, top)["manifests"]:
        yield entry["platform"]["architecture"], document_of(layout, entry)


def document_of(layout: Path, entry: dict[str, Any]) -> dict[str, Any]:
    return json.loads(blob_of(layout, entry).read_text())


def blob_of(layout: Path, entry: dict[str, Any]) -> Path:
    return layout / "blobs" / "sha256" / entry["digest"].removeprefix("sha256:")
