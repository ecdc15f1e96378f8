"""The operating system: host name, architecture, and the kernel with its parameters, modules and options."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from zonewise.machine.collector import Collector, Peek
from zonewise.machine.collectors.host.architecture import cpuinfo_architecture, release_architecture
from zonewise.machine.collectors.host.kernel_config import read_kernel_config
from zonewise.machine.collectors.memory.zone_cpus import NODE
from zonewise.machine.collectors.memory.zone_memory import HUGEPAGES, huge_page_sizes
from zonewise.machine.model.host import Kernel

if TYPE_CHECKING:
    from collections.abc import Hashable

    from zonewise.machine.model.machine import Machine
    from zonewise.machine.reader import Reader

SYSCTL = "proc/sys/kernel"
VERSION = "proc/version"
COMMAND_LINE = "proc/cmdline"
MODULES = "proc/modules"
BUILTIN = "modules.builtin"
CPUINFO = "proc/cpuinfo"
UNAME = "proc/hwloc-nofile-info"
"""The file in which hwloc-gather-topology, the tool behind many captures, stores the output of uname."""

REDACTED = "(redacted)"

# "Linux version 6.1.0-13-amd64 (builder@host) (gcc-12 ...) #1 SMP PREEMPT_DYNAMIC Debian 6.1.55-1 (2023-09-29)":
# init/version.c linux_proc_banner
_BANNER = re.compile(r"Linux version (\S+) \(.*\) (#.*)", re.DOTALL)
_PARAMETER = re.compile(r'(?:[^\s"]|"[^"]*"?)+')  # lib/cmdline.c next_arg(): blanks in double quotes separate nothing
_NUMBER = re.compile(r"\d{2,}")  # no parameter is a bare number; a run level has one digit
_SECRET_NAME = re.compile(
    r"passw|passphrase|secret|token|credential|(?:^|[._-])(?:pass|pwd|key|chap|psk)$", re.IGNORECASE
)
_USER_INFORMATION = re.compile(r"(://|:)[^/@:\s]+:[^/@\s]+@")  # iscsi:user:secret@host, https://user:secret@host
_MODULE = re.compile(rb"^(\w[\w-]{0,63}) \d", re.MULTILINE)
_BUILTIN_MODULE = re.compile(rb"^[ \t]*(?:\S*/)?([\w-]{1,64})\.ko[ \t]*$", re.MULTILINE)

_PAGE_SIZES = {"x86_64": 4096, "i686": 4096, "i386": 4096, "s390x": 4096, "riscv64": 4096, "sparc64": 8192}
"""Page size in bytes, for architectures that have only one."""
_PAGE_SHIFTS = ("PAGE_SHIFT", "ARM64_PAGE_SHIFT", "PPC_PAGE_SHIFT")
_POSSIBLE_SHIFTS = tuple(str(shift) for shift in range(12, 19))  # 4 KiB to 256 KiB


class _Sources(NamedTuple):
    """The sources for a kernel's release and version."""

    read: Reader
    sysctl: bool
    """Whether the kernel's sysctl files exist at all, so that the absence of one is a loss."""
    banner: tuple[str, str] | None
    """Release and version from /proc/version."""
    uname: dict[str, str]


def _collect(read: Reader, machine: Machine) -> Machine:
    sources = _Sources(read, read.has(SYSCTL), _banner(read), _uname(read))
    release = _release_or_version(
        sources, "osrelease", "OSRelease", "kernel.release", sources.banner and sources.banner[0]
    )
    version = _release_or_version(
        sources, "version", "OSVersion", "kernel.version", sources.banner and sources.banner[1]
    )
    config = read_kernel_config(read, release)
    options = None if config is None else config.options
    architecture = _architecture(sources, release)
    kernel = Kernel(
        release,
        version,
        _command_line(sources),
        _modules(read),
        options,
        "" if config is None else config.lines,
        _page_size(sources, architecture, options),
        _huge_page_sizes(read),
        _builtin_modules(read, release),
    )
    return machine._replace(architecture=architecture, hostname=_hostname(sources), kernel=kernel)


def _banner(read: Reader) -> tuple[str, str] | None:
    text = read.text(VERSION)
    match = _BANNER.fullmatch(text) if text else None
    if text and not match:
        read.problem(VERSION, f"is not a version of Linux: {text[:60]!r}", "other sources")
    return (match[1], match[2]) if match else None


def _uname(read: Reader) -> dict[str, str]:
    content = read.raw(UNAME)
    if content is None:
        return {}
    pairs = (line.partition(": ") for line in content.decode("utf-8", "replace").split("\n"))
    fields = {key: value.strip() for key, colon, value in pairs if colon and value.strip() and value.isprintable()}
    if not fields or not content.endswith(b"\n"):
        read.problem(UNAME, "is truncated" if fields else "contains nothing", "other sources")
    return fields


def _release_or_version(sources: _Sources, parameter: str, key: str, fact: str, by_banner: str | None) -> str | None:
    """Return a sysctl of the kernel, else the value from /proc/version, else that from uname."""
    value = _parameter(sources, parameter, fact)
    if value is None and by_banner is not None:
        sources.read.source(fact, VERSION, by_banner, "after Linux version, or from # on")
        return by_banner
    return value or _uname_value(sources, key, fact)


def _parameter(sources: _Sources, name: str, fact: str) -> str | None:
    needed = fact if sources.sysctl else ""
    return sources.read.text(f"{SYSCTL}/{name}", fact=fact, rule="the kernel's own parameter", needed=needed)


def _uname_value(sources: _Sources, key: str, fact: str) -> str | None:
    value = sources.uname.get(key)
    if value is not None:
        sources.read.source(fact, UNAME, value, f"{key}, as uname reported to hwloc-gather-topology")
    return value


def _hostname(sources: _Sources) -> str | None:
    name = _parameter(sources, "hostname", "hostname") or sources.read.text("etc/hostname", fact="hostname")
    name = name or _uname_value(sources, "HostName", "hostname")
    if name is None and sources.banner is not None and not sources.sysctl:
        sources.read.problem(f"{SYSCTL}/hostname", "is absent", "the host name is unknown")
    return name


def _huge_page_sizes(read: Reader) -> tuple[int, ...]:
    directory = HUGEPAGES
    sizes = huge_page_sizes(read, directory)
    if not sizes and (sizes := huge_page_sizes(read, f"{NODE}/node0/hugepages")):
        read.problem(directory, "lists nothing, although node 0 has pools", f"/{NODE}/node0/hugepages")
        directory = f"{NODE}/node0/hugepages"
    read.source("kernel.huge_page_sizes", directory, sizes, "the page sizes in KiB that have a pool")
    return tuple(size * 1024 for size in sizes)


def _architecture(sources: _Sources, release: str | None) -> str | None:
    read, fact = sources.read, "architecture"
    architecture = read.text(f"{SYSCTL}/arch", fact=fact)  # since Linux 6.1
    if architecture is None and read.files.live:
        architecture = os.uname().machine
        read.source(fact, "", architecture, "uname of the running kernel")
    if architecture or (architecture := _uname_value(sources, "Architecture", fact)):
        return architecture
    if release and (architecture := release_architecture(release)):
        read.source(fact, f"{SYSCTL}/osrelease", release, "the suffix of the kernel's release")
        return architecture
    architecture = cpuinfo_architecture(read.raw(CPUINFO) or b"")
    read.source(fact, CPUINFO, architecture, "the format in which CPUs are described")
    return architecture


def _page_size(sources: _Sources, architecture: str | None, config: dict[str, str] | None) -> int | None:
    read, fact = sources.read, "kernel.page_size"
    if read.files.live:
        size = os.sysconf("SC_PAGE_SIZE")
        read.source(fact, "", size, "sysconf of the running kernel")
        return size
    printed = _uname_value(sources, "PageSize", fact)
    if printed in [str(1 << int(shift)) for shift in _POSSIBLE_SHIFTS]:
        return int(printed)
    options = config or {}
    for shift in (options[name] for name in _PAGE_SHIFTS if name in options):
        if shift in _POSSIBLE_SHIFTS:
            read.source(fact, "", shift, "the kernel's option PAGE_SHIFT, the logarithm to base 2")
            return 1 << int(shift)
    size = _PAGE_SIZES.get(architecture or "")
    read.source(fact, "", size, f"the only page size of {architecture}")
    return size


# --- parameters and modules


def _command_line(sources: _Sources) -> tuple[str, ...]:
    content = sources.read.raw(COMMAND_LINE, needed="kernel.command_line" if sources.sysctl or sources.banner else "")
    text = (content or b"").decode("utf-8", "backslashreplace").strip("\0\n ")
    if content is not None and not content.endswith(b"\n"):
        sources.read.problem(COMMAND_LINE, "is truncated", "the parameters before the cut")
    words: list[str] = _PARAMETER.findall(text)
    own = words[: words.index("--")] if "--" in words else words  # the words after it are for init
    if not text.isprintable() or any(_NUMBER.fullmatch(word) for word in own):
        sources.read.problem(COMMAND_LINE, f"is not a list of parameters: {text[:60]!r}", "the text as it is")
    parameters = tuple(redacted(parameter) for parameter in own)
    if content is not None:
        sources.read.source(
            "kernel.command_line", COMMAND_LINE, " ".join(parameters), "split at blanks, without secrets"
        )
    return parameters


def redacted(parameter: str) -> str:
    """Return a kernel parameter with any secret redacted, recognized by its name or in a URL."""
    name, equals, value = parameter.partition("=")
    if equals and _SECRET_NAME.search(name):
        return f"{name}={REDACTED}"
    return name + equals + _USER_INFORMATION.sub(lambda match: f"{match[1]}{REDACTED}@", value)


def _modules(read: Reader) -> tuple[str, ...] | None:
    content = read.raw(MODULES)
    if content is None:
        return None  # kernels with CONFIG_MODULES=n have no such file
    modules = tuple(sorted({match[1].decode("ascii", "replace") for match in _MODULE.finditer(content)}))
    lines = sum(bool(line.strip(b"\0 ")) for line in content.split(b"\n"))
    if lines != len(modules):
        read.problem(MODULES, f"names a module in only {len(modules)} of its {lines} lines", "those")
    read.source("kernel.modules", MODULES, len(modules), "the first word of each line")
    return modules


def _builtin_modules(read: Reader, release: str | None) -> tuple[str, ...] | None:
    """Return the modules in the list that a kernel's build installs (Makefile, modules.builtin)."""
    if release is None or "/" in release:
        return None
    for path in (f"lib/modules/{release}/{BUILTIN}", f"usr/lib/modules/{release}/{BUILTIN}"):
        content = read.raw(path)
        if content is not None:
            names = {match[1].decode("ascii") for match in _BUILTIN_MODULE.finditer(content)}
            read.source("kernel.builtin_modules", path, len(names), "the names of the files")
            return tuple(sorted(names))
    return None


def _volatile(peek: Peek) -> Hashable:
    """Notice a changed host name and loaded modules; use counts are ignored, since they change in /proc/modules all the
    time.
    """
    return peek.content(f"{SYSCTL}/hostname"), peek.names("sys/module") or peek.content(MODULES)


COLLECTOR = Collector(
    name="host",
    provides=("architecture", "hostname", "kernel"),
    needs=(),
    collect=_collect,
    volatile=_volatile,
)
