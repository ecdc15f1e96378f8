"""Removes from a captured machine everything that identifies it or its owner, or that may be secret.

In files with a known format only listed lines and parameters remain, so unknown ones are removed. Elsewhere identifiers
are recognized by their form, and each is replaced by the same stand-in wherever it appears. Facts of the hardware
(models, sizes, addresses on the PCI bus) remain.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from zonewise.machine.capture.identifiers import Identifiers, any_word
from zonewise.machine.capture.smbios_scrubber import without_serials
from zonewise.machine.kernel_log import CAPTURED as CAPTURED_LOG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise.machine.capture.recording import Entries

_HOST_FILES = ("proc/sys/kernel/hostname", "proc/sys/kernel/domainname", "etc/hostname")
_COMMAND_LINE = "proc/cmdline"
_PRIVATE_LOG_WORDS = re.compile(
    r"(?<=\bname=)[^,\n]+|(?<=Sending SIGBUS to )[^\n]+?(?=:\d)|(?<=\bPPIN: )\w+|(?<=[Ss]erial [Nn]umber: )[^\n]+"
    r"|(?<=for process )[^\n]+?(?=\)?(?:\n|$))"
)
"""Names of processes, in lines of AMD's driver with their ids. The inventory number of a processor (kernel
arch/x86/kernel/cpu/mce/core.c). Serial numbers of GPU boards, from NVIDIA's driver, and of PCI Express devices (kernel
drivers/firmware/efi/cper.c)."""
_MODULES = "proc/modules"
_REMOVED = "removed"

_SERIAL_FILES = frozenset(
    (
        *("asset_tag", "board_asset_tag", "board_serial", "chassis_asset_tag", "chassis_serial", "product_serial"),
        *("product_uuid", "boot_id", "machine-id", "host-serial", "serial-number", "system-id", "vm,uuid"),
        *("serial", "serial_number", "unique_id", "uuid", "vpd", "wwid", "wwn", "eui", "nguid", "subsysnqn"),
        *("node_desc", "phys_port_id", "phys_switch_id"),
    )
)
"""Names of files whose whole content is an identifier."""

_SERIAL_LINES = re.compile(
    r"^(?P<name>Serial|Sequence Code|Plant|CPC Name|LPAR Name|LPAR Extended Name|VM\d+ Name|VM\d+ Extended Name"
    r"|serial_number|partition_name|system_name|hostname|HostName)(?P<between>[ \t]*[:=][ \t]*)(?P<value>\S[^\n]*)$",
    re.MULTILINE,
)
"""Lines of /proc/cpuinfo (Arm boards), /proc/sysinfo (s390) and /proc/ppc64/lparcfg (POWER)."""

_RETAINED_FILE_SYSTEMS = frozenset(
    (
        *("bpf", "cgroup", "cgroup2", "configfs", "cpuset", "debugfs", "devpts", "devtmpfs", "fuse.lxcfs"),
        *("hugetlbfs", "proc", "resctrl", "securityfs", "sysfs", "tracefs"),
    )
)
"""Types of mounts that describe the kernel; the others name servers, disks and people."""

_RETAINED_PARAMETERS = re.compile(
    r"(acpi|amd_iommu|amd_pstate|cgroup.*|clocksource|cma|cpuidle\..*|cpufreq\..*|default_hugepagesz|efi|hugepages"
    r"|hugepagesz|hugetlb_.*|idle|init_on_.*|intel_idle\..*|intel_iommu|intel_pstate|iommu.*|irqaffinity|isolcpus"
    r"|kernelcore|kvm.*\.nested|l1tf|lockdown|maxcpus|mce|mds|mem|memhp_default_state|memmap|migration\.*|mitigations"
    r"|module_blacklist|movable_node|movablecore|nmi_watchdog|nohz|nohz_full|nosmt|noxsave|nr_cpus|numa|numa_balancing"
    r"|nvme.*|pci|pci[e_].*|possible_cpus|preempt|processor\..*|psi|rcu_nocbs|rcu_nocb_poll|rcupdate\..*|retbleed"
    r"|sched_.*|sev|sgx|skew_tick|slab_.*|spectre_.*|spec_store_bypass_disable|srso|systemd\.unified_cgroup_hierarchy"
    r"|tdx|transparent_hugepage|tsc|tsx.*|vfio.*|x2apic.*|zswap\..*)"
)
"""Kernel parameters whose values concern only hardware and scheduling (kernel-parameters.rst)."""

_FLAG = re.compile(r"[a-z][a-z0-9_]{0,23}")
_DISTINCTIVE = re.compile(r"(?=.*[0-9.-]).{5,}")
"""A hostname that cannot be mistaken for one of the kernel's words when it appears in other files."""


_NUMBERED = re.compile(r"(?=[^\n\0]*[0-9])[^\n\0]{6,}")
_ADDRESS_IN_KERNEL = re.compile(r"\b0x[0-9a-f]{8,16}$", re.MULTILINE)


class NotScrubbed(Exception):
    """An identifier would remain in the capture; the message names its file."""


class Scrubber:
    """Replaces the identifiers of one capture."""

    def __init__(self, entries: Entries) -> None:
        self._reduced = {path: _reduced(path, entry) for path, entry in entries.items() if isinstance(entry, bytes)}
        texts = [_decoded(content) for content in self._reduced.values()]
        texts.extend(entries)
        texts.extend(entry for entry in entries.values() if isinstance(entry, str))
        self._identifiers = Identifiers(texts, _words(entries))

    def entries(self, entries: Entries) -> Entries:
        """Return the tree without identifiers. Raises NotScrubbed."""
        scrubbed = {self.path(path): self._entry(path, entry) for path, entry in entries.items()}
        for path, entry in scrubbed.items():
            text = _decoded(entry) if isinstance(entry, bytes) else entry or ""
            left = self._identifiers.left_in(path) or self._identifiers.left_in(text)
            if left is not None:
                raise NotScrubbed(f"/{path} would still contain an identifier ({left[:4]}...)")
        return scrubbed

    def path(self, path: str) -> str:
        """Return a path without identifiers."""
        return self._identifiers.replaced(path)

    def _entry(self, path: str, entry: bytes | str | None) -> bytes | str | None:
        if isinstance(entry, bytes):
            return self._encoded(self._reduced[path])
        return self._identifiers.replaced(entry) if entry is not None else None

    def _encoded(self, content: bytes) -> bytes:
        return self._identifiers.replaced(_decoded(content)).encode("latin-1")


def _decoded(content: bytes) -> str:
    return content.decode("latin-1")  # every byte becomes a character, and is restored as it was


def _words(entries: Entries) -> Iterator[str]:
    """Yield words that identify the machine wherever they appear: a distinctive hostname, serial numbers.

    Words that occur in paths are left out: a machine called "node1" must not cost us its NUMA node.
    """
    paths = "\n".join(entries)
    for path, entry in entries.items():
        if isinstance(entry, bytes):
            names_host, names_part = path in _HOST_FILES, posixpath.basename(path) in _SERIAL_FILES
            text = _decoded(entry).strip("\0\n ") if names_host or names_part else ""
            identifies = (names_host and _DISTINCTIVE.fullmatch(text)) or (names_part and _NUMBERED.fullmatch(text))
            if identifies and not any_word([text]).search(paths):
                yield text


def _reduced(path: str, content: bytes) -> bytes:
    """Return a file's content without the parts that its format identifies as sensitive."""
    name = posixpath.basename(path)
    if path in _HOST_FILES or name in _SERIAL_FILES:
        return _stand_in(content)
    if path == _COMMAND_LINE:
        return _command_line(_decoded(content)).encode("latin-1")
    if name in ("mounts", "mountinfo"):
        lines = _decoded(content).splitlines(keepends=True)
        return "".join(line for line in lines if _file_system(line) in _RETAINED_FILE_SYSTEMS).encode("latin-1")
    if path == _MODULES:  # root sees the memory addresses at which the kernel is loaded
        return _ADDRESS_IN_KERNEL.sub("0x0000000000000000", _decoded(content)).encode("latin-1")
    if "sys/firmware/dmi/" in path:
        return without_serials(content)
    text = _decoded(content)
    if path == CAPTURED_LOG:
        text = _PRIVATE_LOG_WORDS.sub(_REMOVED, text)
    return _SERIAL_LINES.sub(rf"\g<name>\g<between>{_REMOVED}", text).encode("latin-1")


def _stand_in(content: bytes) -> bytes:
    end = content[len(content.rstrip(b"\0\n")) :]
    return _REMOVED.encode() + end if content.strip(b"\0\n ") else content


def _command_line(text: str) -> str:
    # the words after " -- " are for the first process, and are not kernel parameters
    words, end = text.partition(" -- ")[0].split(), "\n" if text.endswith("\n") else ""
    return " ".join(map(_parameter, words)) + end


def _parameter(word: str) -> str:
    name, equals, _ = word.partition("=")
    if _RETAINED_PARAMETERS.fullmatch(name) or (not equals and _FLAG.fullmatch(name)):
        return word
    return f"{name}={_REMOVED}" if equals and _FLAG.fullmatch(name.replace(".", "_")) else _REMOVED


def _file_system(line: str) -> str:
    """Return the type in a line of mounts (fstab(5)) or of mountinfo (proc(5): after a lone dash)."""
    fields = line.split(" ")
    if "-" in fields[6:]:
        behind = fields[fields.index("-", 6) + 1 :]
        return behind[0] if behind else ""
    return fields[2] if len(fields) > 2 else ""
