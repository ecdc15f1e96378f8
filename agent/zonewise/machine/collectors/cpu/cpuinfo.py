"""Reads /proc/cpuinfo in the dialects of all architectures.

The file consists of blocks separated by empty lines, with one "key : value" pair a line. Most architectures print a
block for each CPU that starts with "processor : N". s390 prints one line for each CPU, and sparc none. ARM's 32-bit
kernels, s390, sparc and LoongArch print lines outside the CPUs' blocks, which apply to all CPUs (arch/*/kernel,
show_cpuinfo()).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from zonewise.machine.collectors.cpu.arm_parts import IMPLEMENTERS, core_name
from zonewise.machine.model.cpu import Model, SharedCache, Variant
from zonewise.machine.reader import parse_size
from zonewise_common.k8s.cpuset import MAX_CPUS, CpuSet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise.machine.reader import Reader

PATH = "proc/cpuinfo"

_NAMES = ("model name", "Model Name", "uarch", "cpu model", "cpu", "CPU", "Processor")
_VENDORS = ("vendor_id", "vendor", "mvendorid")
_FAMILIES = ("cpu family", "family", "CPU Family")
_STEPPINGS = ("stepping", "CPU Revision", "mimpid", "revision")
_FLAGS = ("flags", "Features", "features", "cpucaps")
_ISAS = ("isa", "ISA")

_S390_PROCESSOR = re.compile(r"processor (\d{1,5})")
_S390_MACHINE = re.compile(r"machine = ([0-9A-Fa-f]+)")
_S390_CACHE = re.compile(r"level=([1-9]) type=(Data|Instruction|Unified) scope=Shared size=(\w+)")

Lines = dict[str, str]


class CpuInfo(NamedTuple):
    """The content of /proc/cpuinfo."""

    own: dict[int, Lines]
    """The lines of each CPU's block."""
    common: Lines
    """The lines that apply to all CPUs."""

    def cpu_lines(self, cpu: int) -> Lines:
        """Return all lines that apply to one CPU."""
        return {**self.common, **self.own.get(cpu, {})}

    def machine_type(self) -> str | None:
        """Return the machine type number of an s390 machine."""
        for lines in self.own.values():
            if match := _S390_MACHINE.search(lines.get("s390", "")):
                return match[1]
        return None

    def shared_caches(self) -> tuple[SharedCache, ...]:
        """Return the caches that s390 lists in this file because it does not know which CPUs share them."""
        lines = (value for key, value in self.common.items() if key.startswith("cache"))
        matches = (_S390_CACHE.search(line) for line in lines)
        return tuple(SharedCache(int(match[1]), match[2], _size(match[3])) for match in matches if match)


def read_cpuinfo(read: Reader) -> CpuInfo:
    """Read /proc/cpuinfo and report damage: every kernel has the file and ends it with a complete line."""
    content = read.raw(PATH, needed="the model of the processor")
    if content is None:
        return CpuInfo({}, {})
    try:
        text = content.decode()
    except UnicodeDecodeError:
        read.problem(PATH, "is not UTF-8 text", "its bytes, escaped")
        text = content.decode("utf-8", "backslashreplace")
    if not content.endswith(b"\n"):
        read.problem(PATH, "is truncated: it has no newline", "the part before the cut")
    cpuinfo = parse_cpuinfo(text)
    if not cpuinfo.own and not cpuinfo.common:
        read.problem(PATH, "describes no processor", "the model of the processor is unknown")
    return cpuinfo


def parse_cpuinfo(text: str) -> CpuInfo:
    """Separate the lines of each CPU from those that apply to all."""
    cpuinfo = CpuInfo({}, {})
    for block in text.split("\n\n"):
        current = cpuinfo.common
        for key, value in _pairs(block):
            if key in ("processor", "cpu number"):
                current = _block(cpuinfo, value)
            elif s390 := _S390_PROCESSOR.fullmatch(key):
                _block(cpuinfo, s390[1])["s390"] = value
            else:
                current.setdefault(key, value)
    return cpuinfo


def _pairs(block: str) -> Iterator[tuple[str, str]]:
    for line in block.split("\n"):
        key, colon, value = line.partition(":")
        if colon:
            yield key.strip(), value.strip()


def _block(cpuinfo: CpuInfo, number: str) -> Lines:
    """Return the lines of a CPU, to be filled in; a throwaway value if `number` is not a number."""
    is_number = number.isascii() and number.isdecimal() and len(number) <= len(str(MAX_CPUS))
    return cpuinfo.own.setdefault(int(number), {}) if is_number and int(number) < MAX_CPUS else {}


def cpu_model(info: CpuInfo, cpus: CpuSet) -> Model:
    """Return the model of the processor and the designs among `cpus`."""
    described = [cpu for cpu in cpus if cpu in info.own] or list(info.own)[:1]
    first = info.cpu_lines(described[0]) if described else info.common
    model = _arm_model(first) if "CPU implementer" in first else _model(first)
    return model._replace(
        flags=_split(_first(first, _FLAGS) or ""),
        isa=_first(first, _ISAS),
        variants=_variants(info, cpus),
    )


def _model(lines: Lines) -> Model:
    vendor = _first(lines, _VENDORS)
    # "model" is a number on x86 and ia64, which print a vendor; on POWER it is the model of the computer
    number = _first(lines, ("model", "marchid")) if vendor else None
    return Model(vendor, _name(lines), _first(lines, _FAMILIES), number, _first(lines, _STEPPINGS))


def _arm_model(lines: Lines) -> Model:
    implementer = IMPLEMENTERS.get(_hexadecimal(lines.get("CPU implementer")))
    variant, revision = _hexadecimal(lines.get("CPU variant")), lines.get("CPU revision")
    return Model(
        implementer.name if implementer else _first(lines, ("CPU implementer",)),
        _name(lines),
        _first(lines, ("CPU architecture",)),
        _first(lines, ("CPU part",)),
        f"r{variant}p{revision}" if variant >= 0 and revision else None,
    )


def _name(lines: Lines) -> str | None:
    known = core_name(_hexadecimal(lines.get("CPU implementer")), _hexadecimal(lines.get("CPU part")))
    return known or _first(lines, _NAMES)


def _variants(info: CpuInfo, cpus: CpuSet) -> tuple[Variant, ...]:
    """Return the CPUs by name; stepping and revision of the core are ignored."""
    if not info.own:
        name = _name(info.common)
        return (Variant(cpus, name),) if name and cpus else ()
    common = _name(info.common)
    by_name: dict[str, list[int]] = {}
    for cpu in cpus:
        lines = info.own.get(cpu)
        name = (_name({**info.common, **lines}) or common) if lines is not None else None
        if name:
            by_name.setdefault(name, []).append(cpu)
    return tuple(Variant(CpuSet(members), name) for name, members in by_name.items())


def _first(lines: Lines, keys: tuple[str, ...]) -> str | None:
    """Return the first printable value."""
    return next((value for key in keys if (value := lines.get(key)) and value.isprintable()), None)


def _split(flags: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in flags.split(",")) if "," in flags else tuple(flags.split())


def _hexadecimal(text: str | None) -> int:
    """Return the number that ARM prints as "0x41"; -1 if there is none."""
    if text is None or not re.fullmatch(r"0x[0-9a-fA-F]{1,8}", text):
        return -1
    return int(text, 16)


def _size(text: str) -> int | None:
    try:
        return parse_size(text)
    except ValueError:
        return None
