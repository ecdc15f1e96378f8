"""The architecture of a captured machine, derived from the dialect of its /proc/cpuinfo."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_LINE = re.compile(rb"^([^:\n]*?)\s*:[ \t]*(.*?)\s*$", re.MULTILINE)
_HEAD = 8192
"""Number of bytes at the start that contain the first CPU's lines, and at the end that contain the machine's lines."""

_RELEASE_SUFFIXES = ("x86_64", "aarch64", "ppc64le", "ppc64", "s390x", "riscv64", "ia64", "i686")
"""Suffixes of kernel releases: Red Hat and others append the architecture."""

_POWER_64 = re.compile(r"POWER\d|PPC970|Cell|A2")
_POWER_LITTLE = re.compile(r"POWER(9|1\d)")
"""POWER models with little-endian kernels only: POWER9 and later. POWER8 has both, POWER7 only big-endian ones."""
_POWER_BIG = re.compile(r"POWER[1-7]\b|PPC970|Cell")


def release_architecture(release: str) -> str | None:
    """Return the architecture at the end of a kernel's release: "4.18.0-513.el8.ppc64le"."""
    last = release.rpartition(".")[2]
    return last if last in _RELEASE_SUFFIXES else None


def cpuinfo_lines(cpuinfo: bytes) -> dict[str, str]:
    """Return the lines of the first CPU and of the end of /proc/cpuinfo; the first line of each name counts."""
    text = cpuinfo if len(cpuinfo) <= 2 * _HEAD else cpuinfo[:_HEAD] + b"\n" + cpuinfo[-_HEAD:]
    lines: dict[str, str] = {}
    for match in _LINE.finditer(text):
        lines.setdefault(match[1].decode("ascii", "replace").strip(), match[2].decode("ascii", "replace"))
    return lines


def cpuinfo_architecture(cpuinfo: bytes) -> str | None:
    """Return the architecture as uname would print it; None if the text does not decide it (arch/*/kernel,
    c_show()).
    """
    lines = cpuinfo_lines(cpuinfo)
    return next((architecture for dialect in _DIALECTS if (architecture := dialect(lines))), None)


def _x86(lines: dict[str, str]) -> str | None:
    flags = lines.get("flags", "").split()
    if "fpu_exception" not in lines and "tsc" not in flags:
        return None
    # a 32-bit kernel may run on a processor with long mode; only such a kernel prints these lines
    # (arch/x86/kernel/cpu/proc.c show_cpuinfo_misc())
    return "x86_64" if "lm" in flags and "fdiv_bug" not in lines else "i686"


def _arm(lines: dict[str, str]) -> str | None:
    if "CPU implementer" not in lines:
        return None
    version = lines.get("CPU architecture", "")
    if version.startswith("AArch64") or "asimd" in lines.get("Features", "").split():
        return "aarch64"
    return f"armv{version}l" if version in ("5", "6", "7") else None


def _power(lines: dict[str, str]) -> str | None:
    cpu = lines.get("cpu", "")
    if "revision" not in lines or "(pvr " not in lines["revision"]:
        return None
    if _POWER_LITTLE.search(cpu):
        return "ppc64le"
    if _POWER_BIG.search(cpu):
        return "ppc64"
    return None if _POWER_64.search(cpu) else "ppc"


def _mainframe(lines: dict[str, str]) -> str | None:
    return "s390x" if lines.get("vendor_id") == "IBM/S390" else None


def _risc_v(lines: dict[str, str]) -> str | None:
    isa = lines.get("isa", "")
    return next((f"riscv{bits}" for bits in ("64", "32") if isa.startswith(f"rv{bits}")), None)


def _loongarch(lines: dict[str, str]) -> str | None:
    return "loongarch64" if "loongarch64" in lines.get("ISA", "").split() else None


def _itanium(lines: dict[str, str]) -> str | None:
    return "ia64" if lines.get("arch") == "IA-64" else None


def _sparc(lines: dict[str, str]) -> str | None:
    return "sparc64" if lines.get("type", "") in ("sun4u", "sun4v") else None


_DIALECTS: tuple[Callable[[dict[str, str]], str | None], ...] = (
    _x86,
    _arm,
    _power,
    _mainframe,
    _risc_v,
    _loongarch,
    _itanium,
    _sparc,
)
