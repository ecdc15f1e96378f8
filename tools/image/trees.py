"""The file trees of an image, one for each layer: Debian's packages, the dependencies in uv.lock, and zonewise."""

from __future__ import annotations

import copy
import os
import re
import shutil
import subprocess
import tarfile
import zipfile
from typing import TYPE_CHECKING, NamedTuple

from tools.image.debian import control_of, fetch_package, open_data

if TYPE_CHECKING:
    from pathlib import Path

    from tools.image.lock import Lock

PYTHON = "3.13"
"""The Python version of the Debian suite in debian.py."""
INTERPRETER = f"usr/bin/python{PYTHON}"
ENVIRONMENT = "opt/zonewise"
SITE_PACKAGES = f"{ENVIRONMENT}/lib/python{PYTHON}/site-packages"
USER = 65532
"""The user `nonroot`, as in the distroless images."""
PLATFORMS = {"amd64": "x86_64-manylinux_2_28", "arm64": "aarch64-manylinux_2_28"}
"""uv's names for the architectures; the wheels run on glibc 2.28 and later."""
LOADERS = {"amd64": "usr/lib64/ld-linux-x86-64.so.2", "arm64": "usr/lib/ld-linux-aarch64.so.1"}
MULTIARCH = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}
_UNUSED = re.compile(
    r"usr/share/(?!doc/[^/]+(/copyright)?$|misc/pci\.ids$)|usr/lib/[^/]+/(gconv|audit)/|usr/lib/(valgrind|binfmt\.d)/|etc/ld\.so"
    rf"|usr/lib/python{re.escape(PYTHON)}/(test|idlelib|tkinter|turtledemo|ensurepip|pydoc_data|venv|curses|sqlite3|dbm)/"
    rf"|usr/lib/python{re.escape(PYTHON)}/lib-dynload/(_curses|_curses_panel|_dbm|_sqlite3|readline)\.[^/]*"
    r"|usr/bin/(?!python)"
)
"""Files of Debian's packages that no layer contains: documentation, and Python modules whose libraries are LEFT_OUT."""
_UNUSED_OF_WHEELS = ("tests", "*.pyi", "*.a", "*.h", "*.c", "*.pyx", "*.pxd", ".lock")
_SOURCES = ("agent", "common", "sandbox", "scheduler", "pyproject.toml", "README.md", "LICENSE")
_LINKS = {"lib": "usr/lib", "bin": "usr/bin", "usr/bin/python3": f"python{PYTHON}"}
"""Links that Debian ships in packages which are not included: base-files, python3-minimal."""
_FILES = {
    "etc/passwd": f"root:x:0:0:root:/:/nologin\nnonroot:x:{USER}:{USER}:nonroot:/:/nologin\n",
    "etc/group": f"root:x:0:\nnonroot:x:{USER}:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
}
DIRECTORIES = ("dev", "etc", "host", "proc", "run", "sys", "tmp", "mispredictions")
"""Mount points for the runtime and our manifests, so that the root file system can be read-only."""
_COMPRESS = """\
import gzip, shutil, sys
with open(sys.argv[1], "rb") as tar, open(sys.argv[2], "wb") as file:
    with gzip.GzipFile("", "wb", 6, file, mtime=0) as compressed:
        shutil.copyfileobj(tar, compressed)
"""
_ENTRY = f"""\
#!/{ENVIRONMENT}/bin/python
import sys
from zonewise.cli import main
sys.exit(main())
"""


class Compiler(NamedTuple):
    """The image's own Python, on the build machine: it compiles bytecode, and compresses with its zlib."""

    root: Path
    architecture: str

    def run(self, *arguments: str) -> None:
        """Run this Python with a fixed hash seed, so that sets in bytecode have a fixed order."""
        libraries = f"{self.root}/usr/lib/{MULTIARCH[self.architecture]}"
        loader = [str(self.root / LOADERS[self.architecture]), "--library-path", libraries]
        environment = {"PYTHONHASHSEED": "0", "PYTHONHOME": f"{self.root}/usr", "PYTHONDONTWRITEBYTECODE": "1"}
        subprocess.run([*loader, str(self.root / INTERPRETER), "-S", *arguments], check=True, env=environment)

    def compress(self, tar: Path, file: Path) -> None:
        """Write a compressed copy of a file, without its name and time."""
        self.run("-c", _COMPRESS, str(tar), str(file))

    def compile(self, tree: Path) -> None:
        """Compile each module of a tree for the images' level (PYTHONOPTIMIZE=2), without times in the bytecode."""
        paths = ["-s", str(tree), "-p", "/"]
        self.run("-m", "compileall", "-q", "-o", "2", "--invalidation-mode", "unchecked-hash", *paths, str(tree))


def unpack_debian(tree: Path, lock: Lock, architecture: str, cache: Path) -> None:
    """Write the files of the Debian packages for an architecture into a tree, without bytecode."""
    for link, target in _LINKS.items():
        _link(tree / link, target)
    if architecture == "amd64":
        _link(tree / "lib64", "usr/lib64")
    for package in lock.packages[architecture]:
        content = fetch_package(package, lock.snapshot, cache)
        with open_data(content) as archive:
            _extract(archive, tree)
        # for images without dpkg, scanners read the packages here
        _write(tree / "var/lib/dpkg/status.d" / package.name, control_of(content))
    for name, text in _FILES.items():
        _write(tree / name, text)
    _write(tree / "etc/os-release", _os_release(lock))
    for name in DIRECTORIES:
        (tree / name).mkdir(exist_ok=True)
    # the DaemonSet mounts the node's files below /host, but /proc is the container's own
    _link(tree / "host/proc", "/proc")


def install_dependencies(tree: Path, uv: Path, project: Path, part: str, architecture: str) -> None:
    """Install the dependencies of a part from uv.lock: each wheel by its hash, without building anything.

    Raises subprocess.CalledProcessError if uv fails; uv prints the reason.
    """
    export = [uv, "export", "--quiet", "--locked", "--no-default-groups", "--extra", part, "--no-emit-project"]
    requirements = subprocess.run(export, cwd=project, check=True, stdout=subprocess.PIPE).stdout
    target = tree / SITE_PACKAGES
    target.mkdir(parents=True)
    options = ["--python-version", PYTHON, "--python-platform", PLATFORMS[architecture], "--only-binary", ":all:"]
    install = [uv, "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--link-mode", "copy", *options]
    command = [*install, "--target", str(target), "--no-compile-bytecode", "--requirements", "-"]
    subprocess.run(command, cwd=project, check=True, input=requirements)
    _remove_unused(target)


def install_zonewise(tree: Path, wheel: Path) -> None:
    """Unpack the wheel of zonewise into an environment, and add its program."""
    target = tree / SITE_PACKAGES
    target.mkdir(parents=True)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)  # noqa: S202 -- our own wheel
    bin_ = tree / ENVIRONMENT / "bin"
    bin_.mkdir()
    _link(bin_ / "python", f"/{INTERPRETER}")
    _write(bin_ / "zonewise", _ENTRY)
    (bin_ / "zonewise").chmod(0o755)
    _write(tree / ENVIRONMENT / "pyvenv.cfg", f"home = /usr/bin\nversion = {PYTHON}\n")


def build_wheel(directory: Path, uv: Path, project: Path, version: str) -> Path:
    """Build the wheel of zonewise for a version, with 1980 as the time of its files."""
    source = directory / "source"  # a copy, since the build writes the version into a module
    for name in _SOURCES:
        if (project / name).is_dir():
            shutil.copytree(project / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "_version.py"))
        else:
            shutil.copy(project / name, source / name)
    environment = {**os.environ, "SETUPTOOLS_SCM_PRETEND_VERSION": version, "SOURCE_DATE_EPOCH": "315532800"}
    command = [uv, "build", "--quiet", "--wheel", "--out-dir", str(directory)]
    subprocess.run(command, cwd=source, check=True, env=environment)
    [wheel] = directory.glob("zonewise-*.whl")
    return wheel


def _extract(archive: tarfile.TarFile, tree: Path) -> None:
    """Extract the members to keep.

    Debian 12's Python, 3.11.2, lacks the filters of tarfile, which were added in 3.11.4.
    """
    members = [member for member in map(_keep, archive) if member is not None]
    if hasattr(tarfile, "fully_trusted_filter"):
        archive.extractall(tree, members, filter="fully_trusted")  # noqa: S202 -- _keep() has filtered
    else:
        archive.extractall(tree, members)  # noqa: S202 -- _keep() has filtered


def _keep(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Return a member in the form to extract, as tarfile.tar_filter() does, or None to skip it.

    Raises tarfile.TarError if it would be outside the tree.
    """
    name = member.name.removeprefix("./")
    if member.isdir():
        return None  # extraction creates the parents of extracted members
    if _UNUSED.match(name):
        return None
    if name.startswith("/") or ".." in name.split("/"):
        raise tarfile.TarError(f"a member outside of the tree: {member.name}")
    extracted = copy.copy(member)
    extracted.mode = member.mode & 0o755
    if member.issym() and member.linkname.startswith("/"):
        extracted.linkname = os.path.relpath(member.linkname, f"/{os.path.dirname(name)}")
    return extracted


def _remove_unused(packages: Path) -> None:
    shutil.rmtree(packages / "bin", ignore_errors=True)
    for pattern in _UNUSED_OF_WHEELS:
        for path in sorted(packages.rglob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    for metadata in packages.glob("*.dist-info"):
        # lists of installed files, with the paths of this machine
        for name in ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json"):
            (metadata / name).unlink(missing_ok=True)


def _os_release(lock: Lock) -> str:
    return f'ID=debian\nNAME="Debian GNU/Linux"\nVERSION_CODENAME={lock.suite}\nVERSION_ID="13"\n'


def _link(path: Path, target: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
