"""The machine's name from DMI, the device tree, POWER's lines in /proc/cpuinfo, or s390's /proc/sysinfo.

Serial numbers, UUIDs and asset tags are never read: they identify property, and no scheduling decision needs them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zonewise.machine.collector import Collector, NoData
from zonewise.machine.collectors.host.architecture import cpuinfo_lines
from zonewise.machine.model.host import Firmware

if TYPE_CHECKING:
    from collections.abc import Hashable

    from zonewise.machine.collector import Peek
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.reader import Reader

DMI = ("sys/class/dmi/id", "sys/devices/virtual/dmi/id")
DEVICE_TREES = ("proc/device-tree", "sys/firmware/devicetree/base")
SYSINFO = "proc/sysinfo"
CPUINFO = "proc/cpuinfo"

_GROUPS = (
    {"sys_vendor": "vendor", "product_name": "product", "product_version": "version"},
    {"board_vendor": "board_vendor", "board_name": "board", "board_version": "board_version"},
    {"bios_vendor": "bios_vendor", "bios_version": "bios_version", "bios_date": "bios_date"},
    {"chassis_vendor": "chassis_vendor", "chassis_type": "chassis_type", "chassis_version": "chassis_version"},
)
"""DMI attribute -> field, grouped by SMBIOS structure: the attributes of a structure exist together.

The kernel stores every string of a structure, including empty ones (drivers/firmware/dmi_scan.c dmi_save_ident()).
"""

_LATER = {"product_family": "family", "product_sku": "sku"}
"""Attributes that kernels have since 4.12 and 4.18; they may be blank."""

_MODALIAS = {
    "sys_vendor": "svn",
    "product_name": "pn",
    "product_version": "pvr",
    "board_vendor": "rvn",
    "board_name": "rn",
    "board_version": "rvr",
    "bios_vendor": "bvn",
    "bios_version": "bvr",
    "bios_date": "bd",
    "chassis_vendor": "cvn",
    "chassis_type": "ct",
    "chassis_version": "cvr",
}
"""Attribute -> its mark in the attribute modalias, which repeats all of them (drivers/firmware/dmi-id.c
get_modalias())."""

_PLACEHOLDERS = frozenset(
    {
        "to be filled by o.e.m.",
        "to be filled by oem",
        "default string",
        "not specified",
        "not applicable",
        "not available",
        "n/a",
        "na",
        "none",
        "unknown",
        "undefined",
        "system product name",
        "system manufacturer",
        "product name",
        "manufacturer",
        "o.e.m.",
        "oem",
        "empty",
        "invalid",
        "(null)",
    }
)
"""Placeholders, in lower case, of vendors that did not fill in a name."""
_BLANKS = "0xX.-_ "
"""A value that consists only of these characters is not a name."""

_SYSINFO_LINE = re.compile(r"^(Manufacturer|Type|Model): +(.*?) *$", re.MULTILINE)


def _collect(read: Reader, machine: Machine) -> Machine:
    firmware = _dmi(read) or _device_tree(read) or _mainframe(read)
    if (machine.architecture or "").startswith("ppc"):
        firmware = _power(read, firmware or Firmware())
    if firmware is None:
        raise NoData("no DMI and no device tree")
    return machine._replace(firmware=firmware, product=_product(read, firmware))


# --- DMI


def _dmi(read: Reader) -> Firmware | None:
    for directory in DMI:
        if present := _present(read, directory):
            groups = [group for group in _GROUPS if not present.isdisjoint(group)]
            fields = {
                field: _attribute(read, directory, name, field) for group in groups for name, field in group.items()
            }
            blank = [(name, field) for group in groups for name, field in group.items() if fields[field] is None]
            if blank:
                _report_lost(read, directory, blank)
            later = {
                field: _attribute(read, directory, name, field) for name, field in _LATER.items() if name in present
            }
            return Firmware()._replace(**fields, **later)
    return None


def _present(read: Reader, directory: str) -> frozenset[str]:
    """Return the names of the attributes; all names if a directory can be read but not listed."""
    names = frozenset(read.names(directory))
    if names or (read.raw(f"{directory}/sys_vendor") is None and read.raw(f"{directory}/bios_vendor") is None):
        return names
    read.problem(directory, "cannot be listed", "the attributes that can be read")
    return frozenset(_MODALIAS)


def _report_lost(read: Reader, directory: str, blank: list[tuple[str, str]]) -> None:
    """Report blank attributes that have a value in `modalias`; without `modalias`, those that should never be blank."""
    repeated = (read.raw(f"{directory}/modalias") or b"").decode("ascii", "replace").strip("\0\n").split(":")[1:]
    for name, field in blank:
        mark = _MODALIAS[name]
        repetitions = [part for part in repeated if part.startswith(mark)]
        if repetitions != [mark] if repetitions else not name.endswith("_version"):
            read.problem(f"{directory}/{name}", "contains nothing", f"firmware.{field} is unknown")


def _attribute(read: Reader, directory: str, name: str, field: str) -> str | None:
    """Return the text of an attribute; None if it is blank."""
    path, fact = f"{directory}/{name}", f"firmware.{field}"
    content = read.raw(path, needed=fact)
    if content is None:
        return None
    # a firmware string may have several lines; the first one is the name
    text = content.decode("utf-8", "backslashreplace").lstrip().partition("\n")[0].strip("\0 \t\r")
    if not content.strip(b"\0"):
        read.problem(path, "is empty", f"{fact} is unknown")
    if not text:
        return None
    if not text.isprintable():
        read.problem(path, f"is not text: {text[:60]!r}", f"{fact} is unknown")
        return None
    read.source(fact, path, text, "as in the firmware, without leading and trailing blanks")
    return text


# --- device tree and others


def _device_tree(read: Reader) -> Firmware | None:
    for directory in DEVICE_TREES:
        compatible = _strings(read.raw(f"{directory}/compatible"))
        model = _strings(read.raw(f"{directory}/model"))
        if compatible or model:
            read.source("firmware.product", f"{directory}/model", ", ".join(model), "the model of the device tree")
            read.source(
                "firmware.compatible", f"{directory}/compatible", ", ".join(compatible), "names, separated by NUL"
            )
            return Firmware(product=model[0] if model else None, compatible=compatible)
    return None


def _strings(content: bytes | None) -> tuple[str, ...]:
    """Return the strings of a device tree property; each of them ends in a NUL."""
    parts = (part.decode("ascii", "backslashreplace").strip() for part in (content or b"").split(b"\0"))
    return tuple(part for part in parts if part and part.isprintable())


def _power(read: Reader, firmware: Firmware) -> Firmware:
    """Return the firmware facts, completed with the lines that the kernel prints after the CPUs
    (arch/powerpc/kernel/setup-common.c).
    """
    lines = cpuinfo_lines(read.raw(CPUINFO) or b"")
    platform = lines.get("platform") or None
    # "machine" begins with the platform ("PowerNV 8335-GTW") or the firmware's type ("CHRP IBM,9179-MHB")
    product = firmware.product or lines.get("machine") or lines.get("model") or None
    read.source("firmware.platform", CPUINFO, platform, "platform, after the lines of the CPUs")
    read.source("firmware.product", CPUINFO, product, "machine, otherwise model, after the lines of the CPUs")
    return firmware._replace(platform=platform, product=product)


def _mainframe(read: Reader) -> Firmware | None:
    """Return the identity of an s390 machine (arch/s390/kernel/sysinfo.c stsi_1_1_1())."""
    text = read.text(SYSINFO)
    if text is None:
        return None
    fields = {match[1]: match[2] for match in _SYSINFO_LINE.finditer(text)}
    if lacking := [name for name in ("Manufacturer", "Type", "Model") if name not in fields]:
        read.problem(SYSINFO, f"has no line {', '.join(lacking)}", "its other lines")
    model = " ".join(fields.get("Model", "").split())
    product = " ".join(part for part in (fields.get("Type", ""), model) if part)
    read.source("firmware.vendor", SYSINFO, fields.get("Manufacturer"), "Manufacturer")
    read.source("firmware.product", SYSINFO, product, "Type and Model, both of the capacity and of the hardware")
    return Firmware(vendor=fields.get("Manufacturer"), product=product or None)


def _product(read: Reader, firmware: Firmware) -> str | None:
    """Return vendor and product as one name; None if the vendor filled in neither."""
    parts = [name for name in (firmware.vendor, firmware.product) if name]
    named = [name for name in parts if name.lower() not in _PLACEHOLDERS and name.strip(_BLANKS)]
    if len(named) == 2 and named[1].lower().startswith(named[0].lower()):
        named = named[1:]
    text = " ".join(named) or None
    read.source("product", DMI[0], text, "vendor and product of the firmware, without placeholders")
    return text


def _volatile(_peek: Peek) -> Hashable:
    """Return nothing: the firmware's tables are written before the kernel starts."""
    return None


COLLECTOR = Collector(
    name="firmware",
    provides=("firmware", "product"),
    needs=("architecture",),
    collect=_collect,
    volatile=_volatile,
)
