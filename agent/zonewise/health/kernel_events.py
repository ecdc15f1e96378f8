"""Device events in lines of the kernel log.

Formats: NVRM lines of the open kernel modules (src/nvidia/src/kernel/gpu/gpu.c, gpu/rc/kernel_rc.c,
kernel-open/nvidia/nv.c), drivers/gpu/drm/amd/amdgpu (amdgpu_device.c, amdgpu_ras.c, gmc_v9_0.c), wedged GPUs of
drivers/gpu/drm/drm_drv.c, AER of drivers/pci/pcie/aer.c, health of drivers/net/ethernet/mellanox/mlx5/core/health.c,
and memory failures of mm/memory-failure.c. A line in another format is not an event.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zonewise.health.types import GPU, MEMORY, NIC, NODE, DeviceEvent, DeviceId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from zonewise.machine.kernel_log import LogRecord

_MAX_TEXT = 240  # maximum characters of a line in the evidence
_MAX_CODE_DIGITS = 6
_ADDRESS = r"(?:PCI:)?(?P<address>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.(?P<function>[0-7]))?"
# kernel_rc.c names the GPU instance of an error, and its compute instance
_MIG_INSTANCE = r"(?: GPU-I:(?P<gpu_instance>\d{1,4}))?(?: GPU-CI:(?P<compute_instance>\d{1,4}))?"
_XID = re.compile(rf"NVRM: Xid \({_ADDRESS}{_MIG_INSTANCE}\): (?P<code>\d{{1,{_MAX_CODE_DIGITS}}})\b(?P<rest>.*)")
# two more lines of the same error begin alike: "12028, Severity 1 Engine ..." and "12028, Data {...}"
_SXID = re.compile(rf"SXid \({_ADDRESS}\): (?P<code>\d{{1,{_MAX_CODE_DIGITS}}}), (?P<rest>Fatal|Non-fatal)\b")
_OFF_BUS = re.compile(rf"NVRM: .*?GPU (?:at )?{_ADDRESS}.*fallen off the bus")
_INIT_FAILED = re.compile(rf"NVRM: GPU {_ADDRESS}: RmInitAdapter failed")
_AMDGPU = rf"\bamdgpu {_ADDRESS}: (?:amdgpu: )?"  # some releases repeat the driver's name
_PAGE_FAULT = re.compile(
    rf"{_AMDGPU}\[\w+\] (?:(?:no-)?retry )?page fault \(src_id:\d+ .*?\bpasid:(?P<code>\d{{1,10}})"
)
_RAS_FATAL = re.compile(rf"{_AMDGPU}(?:\{{\d+\}} ?)?[Uu]ncorrectable hardware error ?\(ERREVENT_ATHUB_INTERRUPT\)")
_GPU_RESET = re.compile(rf"{_AMDGPU}GPU reset\(\d+\) succeeded")
_RESET_FAILED = re.compile(rf"{_AMDGPU}GPU reset\(\d+\) failed")
_WEDGED = re.compile(rf"\b\w+ {_ADDRESS}: \[drm\] device wedged, needs recovery")
_AER = re.compile(  # older kernels print "Uncorrected", newer ones "Uncorrectable"
    rf"(?P<driver>[\w-]+) {_ADDRESS}: (?:AER: )?PCIe Bus Error: severity=Uncorrect(?:ed|able) \((?P<rest>[\w-]+)"
)
_MLX5 = re.compile(rf"mlx5_core {_ADDRESS}: .*(?:health compromised|firmware internal error|poll_health.*miss)")
_GPU_DRIVERS = frozenset({"nvidia", "amdgpu", "xe", "i915"})
_NIC_DRIVERS = frozenset(
    {"mlx5_core", "mlx4_core", "bnxt_en", "ice", "i40e", "ixgbe", "ena", "efa", "irdma", "hfi1", "ionic", "cxgb4"}
)
_MEMORY = re.compile(r"Memory failure: 0x[0-9a-f]+: (?:recovery action|Sending SIGBUS|unhandlable)")


def device_events(records: Iterable[LogRecord]) -> Iterator[DeviceEvent]:
    """Yield the events in records of the kernel log, in order."""
    for record in records:
        for pattern, event in _EVENTS:
            if match := pattern.search(record.message):
                yield event(match)._replace(at=record.at, text=record.message[:_MAX_TEXT])
                break


def _address(match: re.Match[str]) -> str:
    """Return the address in sysfs notation: a domain of at least four digits, lower case, with the function."""
    domain, _, rest = match["address"].lower().partition(":")
    return f"{domain.lstrip('0').rjust(4, '0')}:{rest}.{match['function'] or '0'}"


def _fatal(text: str) -> bool | None:
    """Return whether a line calls its error fatal; None if it does not say."""
    words = text.lower()
    if "non-fatal" in words or "nonfatal" in words:
        return False
    return True if re.search(r"\bfatal\b", words) else None


def _xid(match: re.Match[str]) -> DeviceEvent:
    instances = (match[name] for name in ("gpu_instance", "compute_instance"))
    return DeviceEvent(
        "xid",
        DeviceId(GPU, _address(match)),
        None,
        int(match["code"]),
        fatal=_fatal(match["rest"]),
        instance="/".join(str(int(number)) for number in instances if number is not None),
    )


def _sxid(match: re.Match[str]) -> DeviceEvent:
    return DeviceEvent(
        "sxid", DeviceId(NODE, f"nvswitch {_address(match)}"), None, int(match["code"]), fatal=_fatal(match["rest"])
    )


def _gpu(kind: str) -> Callable[[re.Match[str]], DeviceEvent]:
    return lambda match: DeviceEvent(kind, DeviceId(GPU, _address(match)), None)


def _page_fault(match: re.Match[str]) -> DeviceEvent:
    return _gpu("page-fault")(match)._replace(code=int(match["code"]))


def _aer(match: re.Match[str]) -> DeviceEvent:
    address, driver = _address(match), match["driver"]
    kind = GPU if driver in _GPU_DRIVERS else NIC if driver in _NIC_DRIVERS else NODE
    device = DeviceId(kind, address if kind != NODE else f"pci {address}")
    return DeviceEvent("aer", device, None, fatal=match["rest"].lower() == "fatal")


def _nic(match: re.Match[str]) -> DeviceEvent:
    return DeviceEvent("nic-health", DeviceId(NIC, _address(match)), None)


def _memory(_match: re.Match[str]) -> DeviceEvent:
    return DeviceEvent("memory-failure", DeviceId(MEMORY, ""), None)


_EVENTS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], DeviceEvent]], ...] = (
    (_XID, _xid),
    (_SXID, _sxid),
    (_OFF_BUS, _gpu("off-bus")),
    (_INIT_FAILED, _gpu("init-failed")),
    (_PAGE_FAULT, _page_fault),
    (_RAS_FATAL, _gpu("ras-fatal")),
    (_GPU_RESET, _gpu("gpu-reset")),
    (_RESET_FAILED, _gpu("reset-failed")),
    (_WEDGED, _gpu("wedged")),
    (_MLX5, _nic),
    (_AER, _aer),
    (_MEMORY, _memory),
)
