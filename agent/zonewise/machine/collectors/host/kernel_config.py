"""The options that the kernel was built with: all that are set, and by name those that matter for placement."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from zonewise.machine.reader import Reader

EMBEDDED = "proc/config.gz"
MAX_CONFIG = 4 << 20
"""Maximum bytes of an unpacked configuration: those of distributions have 0.3 MiB."""

OPTIONS = (
    "ACPI_HMAT", "ARM64_PAGE_SHIFT", "CGROUPS", "CPUSETS", "CXL_BUS", "DEV_DAX_KMEM", "DMABUF_MOVE_NOTIFY", "HUGETLBFS",
    "HZ", "INFINIBAND", "IOMMU_DEFAULT_PASSTHROUGH", "MEMORY_HOTPLUG", "NO_HZ", "NO_HZ_FULL", "NO_HZ_IDLE", "NUMA",
    "NUMA_BALANCING", "NUMA_EMU", "PAGE_SHIFT", "PCI_P2PDMA", "PREEMPT", "PREEMPT_DYNAMIC", "PREEMPT_NONE",
    "PREEMPT_RT", "PREEMPT_VOLUNTARY", "SCHED_CLUSTER", "SCHED_MC", "SCHED_SMT", "TRANSPARENT_HUGEPAGE", "VFIO",
)  # fmt: skip
"""The options that schedulers, GPU and network drivers and NFD's features need."""

_RELEASE = re.compile(r"[\w.+~-]{1,128}")
_SET = re.compile(rb"^(?:CONFIG_(\w+)=(.*)|# CONFIG_(\w+) is not set)$", re.MULTILINE)


class KernelConfig(NamedTuple):
    """A kernel's configuration."""

    options: dict[str, str]
    """The values of OPTIONS by name: "y", "m", "n" or another value."""
    lines: str
    """All options that are set, one line each such as "NUMA=y"; quotes around values are removed."""


def read_kernel_config(read: Reader, release: str | None) -> KernelConfig | None:
    """Return the configuration; None if there is none."""
    for path in (EMBEDDED, *_paths(release)):
        content = read.raw(path)
        if content is not None and path == EMBEDDED:
            content = _unpacked(read, content)
        if content is None:
            continue
        config = _parsed(content)
        if config.options:
            read.source(
                "kernel.config",
                path,
                f"{len(config.options)} of {len(content)} bytes",
                "the options that matter for placement",
            )
            return config
        read.problem(path, "has no option", "another copy, if there is one")
    return None


def _paths(release: str | None) -> tuple[str, ...]:
    """Return the paths at which distributions install a kernel's configuration."""
    if release is None or not _RELEASE.fullmatch(release):
        return ()
    return (
        f"boot/config-{release}",
        f"usr/lib/modules/{release}/config",
        f"lib/modules/{release}/config",
        f"usr/lib/kernel/config-{release}",
        f"usr/lib/ostree-boot/config-{release}",
        f"usr/src/linux-{release}/.config",
        f"usr/src/linux-headers-{release}/.config",
        f"lib/modules/{release}/build/.config",
        f"usr/src/linux-rt-{release}/.config",
        f"usr/src/linux-rt-headers-{release}/.config",
        "usr/src/linux/.config",
    )


def unpack_kernel_config(content: bytes) -> bytes:
    """Return the data unpacked by gzip, at most MAX_CONFIG bytes. Raise ValueError for other data."""
    import zlib  # loaded only for the few machines that need it

    unpacker = zlib.decompressobj(wbits=31)  # gzip, and nothing else
    try:
        return unpacker.decompress(content, MAX_CONFIG)
    except zlib.error as error:
        raise ValueError(f"cannot be unpacked: {error}") from error


def kernel_options(content: bytes) -> dict[str, str]:
    """Return all options that a configuration sets, without the prefix CONFIG_."""
    return {name: value for name, _, value in (line.partition("=") for line in _parsed(content).lines.splitlines())}


def _unpacked(read: Reader, content: bytes) -> bytes | None:
    try:
        return unpack_kernel_config(content)
    except ValueError as error:
        read.problem(EMBEDDED, str(error), "another copy, if there is one")
        return None


def _parsed(content: bytes) -> KernelConfig:
    names = frozenset(OPTIONS)
    options: dict[str, str] = {}
    lines: list[str] = []
    for match in _SET.finditer(content):
        name, value, unset = (part.decode("ascii", "replace") for part in match.groups(b""))
        text = value.strip('"')
        if name:
            lines.append(f"{name}={text}")
        if name in names or unset in names:
            options[name or unset] = text if name else "n"
    return KernelConfig(options, "\n".join(lines))
