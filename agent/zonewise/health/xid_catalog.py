"""The meaning of each XID of NVIDIA's driver for the GPU and the program, and how others judge the same XID.

The verdicts follow NVIDIA's XID catalogue (docs.nvidia.com/deploy/xid-errors, "Analyzing Xid Catalog", 2025): an
immediate action RESTART_APP is the program's fault, RESET_GPU the driver's or the GPU's. Two other programs judge XIDs:
gpud (components/accelerator/nvidia/xid/xid.go) and NVIDIA's Kubernetes device plugin (internal/rm/health.go). The
plugin ignores six XIDs and treats every other one as the end of the GPU. If the sources contradict each other, the
verdict reports it.
"""

from __future__ import annotations

from typing import NamedTuple

from zonewise.health.types import Clearing, Severity, Verdict

BASIS = "NVIDIA XID catalogue (docs.nvidia.com/deploy/xid-errors)"
REPEATED_APPLICATION_XIDS = frozenset({13, 31})
"""XIDs of programs that a defective GPU causes as well. NVIDIA's workflows XID_13 and XID_31 end with a diagnosis of
the GPU if the same GPU raises them under different programs."""
FALLEN_OFF_THE_BUS = 79

_APPLICATION, _DRIVER, _HARDWARE, _UNKNOWN = Verdict.APPLICATION, Verdict.DRIVER, Verdict.HARDWARE, Verdict.UNKNOWN
_NOTE, _DEGRADED, _FAILED = Severity.NOTE, Severity.DEGRADED, Severity.FAILED
_QUIET, _RESET, _REBOOT = Clearing.QUIET, Clearing.RESET, Clearing.REBOOT


class XidRule(NamedTuple):
    """The rule for one XID."""

    code: int
    text: str
    verdict: Verdict
    severity: Severity
    clearing: Clearing
    action: str
    """NVIDIA's immediate action; empty if the catalogue has none."""
    fatal: bool = False
    """Whether gpud's event type is Fatal."""

    @property
    def ignored(self) -> bool:
        """Return whether the device plugin ignores the XID."""
        return self.code in DEVICE_PLUGIN_IGNORES

    @property
    def disagreement(self) -> str:
        """Return how the sources contradict each other; empty if they do not."""
        harmless = self.action in _HARMLESS
        contradicts = (harmless and self.fatal) or (self.ignored and (self.fatal or not harmless))
        if not contradicts:
            return ""
        judgements = [
            f"NVIDIA's action is {self.action or 'none'}",
            f"gpud's event is {'fatal' if self.fatal else 'a warning'}",
            f"the device plugin {'ignores it' if self.ignored else 'takes the GPU as unhealthy'}",
        ]
        return f"sources disagree: {', '.join(judgements)}"


DEVICE_PLUGIN_IGNORES = frozenset({13, 31, 43, 45, 68, 109})
_NVLINK5 = range(144, 151)
_HARMLESS = frozenset({"RESTART_APP", "IGNORE", "WORKFLOW_XID_45"})


def _engines(text: str, codes: tuple[int, ...], fatal: frozenset[int] = frozenset()) -> tuple[XidRule, ...]:
    return tuple(XidRule(code, text, _APPLICATION, _NOTE, _QUIET, "RESTART_APP", code in fatal) for code in codes)


_RULES = (
    XidRule(8, "the GPU stopped processing", _APPLICATION, _NOTE, _QUIET, "RESTART_APP"),
    XidRule(11, "invalid or corrupted push buffer", _APPLICATION, _NOTE, _QUIET, "RESTART_APP"),
    XidRule(13, "graphics engine exception", _APPLICATION, _NOTE, _QUIET, "RESTART_APP"),
    XidRule(25, "invalid push buffer", _APPLICATION, _NOTE, _QUIET, "RESTART_APP"),
    XidRule(31, "memory page fault", _APPLICATION, _NOTE, _QUIET, "RESTART_APP"),
    XidRule(32, "invalid or corrupted push buffer", _APPLICATION, _NOTE, _QUIET, "RESTART_APP", True),
    XidRule(37, "driver firmware error", _DRIVER, _NOTE, _QUIET, "IGNORE"),
    XidRule(38, "driver firmware error", _DRIVER, _DEGRADED, _RESET, "IGNORE", True),
    XidRule(43, "the GPU stopped processing", _APPLICATION, _NOTE, _QUIET, "IGNORE"),
    XidRule(44, "fault in a context switch", _DRIVER, _DEGRADED, _RESET, "IGNORE", True),
    XidRule(45, "clean-up of channels after an earlier error", _UNKNOWN, _NOTE, _QUIET, "WORKFLOW_XID_45"),
    XidRule(46, "the GPU stopped processing", _DRIVER, _DEGRADED, _RESET, "RESET_GPU", True),
    XidRule(48, "double bit ECC error", _HARDWARE, _FAILED, _RESET, "WORKFLOW_XID_48", True),
    XidRule(54, "auxiliary power is not connected", _HARDWARE, _FAILED, _REBOOT, "CHECK_MECHANICALS"),
    XidRule(60, "video processor exception", _APPLICATION, _NOTE, _QUIET, "RESTART_APP", True),
    XidRule(62, "internal micro-controller halt", _DRIVER, _FAILED, _RESET, "RESET_GPU", True),
    XidRule(63, "a row of memory was remapped", _HARDWARE, _NOTE, _QUIET, "IGNORE", True),
    XidRule(64, "remapping a row of memory failed", _HARDWARE, _FAILED, _RESET, "RESET_GPU", True),
    XidRule(66, "illegal access by the driver", _DRIVER, _DEGRADED, _QUIET, "IGNORE"),
    XidRule(67, "illegal access by the driver", _DRIVER, _DEGRADED, _QUIET, "IGNORE"),
    XidRule(69, "graphics engine class error", _APPLICATION, _NOTE, _QUIET, "RESTART_APP", True),
    XidRule(74, "NVLink error", _HARDWARE, _FAILED, _RESET, "WORKFLOW_NVLINK_ERR", True),
    XidRule(78, "vGPU start error", _DRIVER, _DEGRADED, _RESET, "UPDATE_SWFW", True),
    XidRule(79, "the GPU has fallen off the bus", _HARDWARE, _FAILED, _REBOOT, "RESTART_BM", True),
    XidRule(80, "corrupted data sent to the GPU", _APPLICATION, _NOTE, _QUIET, "RESTART_APP"),
    XidRule(92, "high rate of single bit ECC errors", _HARDWARE, _DEGRADED, _QUIET, "IGNORE"),
    XidRule(93, "InfoROM wear limit violated", _HARDWARE, _NOTE, _QUIET, "IGNORE"),
    XidRule(94, "contained memory error", _HARDWARE, _DEGRADED, _QUIET, "RESTART_APP", True),
    XidRule(95, "uncontained memory error", _HARDWARE, _FAILED, _RESET, "RESET_GPU", True),
    XidRule(106, "test message", _UNKNOWN, _NOTE, _QUIET, "IGNORE"),
    XidRule(107, "silent test message", _UNKNOWN, _NOTE, _QUIET, "IGNORE"),
    XidRule(109, "context switch timeout", _DRIVER, _DEGRADED, _RESET, "RESET_GPU"),
    XidRule(110, "security fault", _DRIVER, _FAILED, _RESET, "RESET_GPU", True),
    XidRule(119, "timeout of a call to the GPU's firmware (GSP)", _DRIVER, _FAILED, _RESET, "RESET_GPU", True),
    XidRule(120, "error of the GPU's firmware (GSP)", _DRIVER, _FAILED, _RESET, "RESET_GPU", True),
    XidRule(121, "chip-to-chip link error", _HARDWARE, _DEGRADED, _RESET, "IGNORE", True),
    XidRule(136, "link training failed", _HARDWARE, _FAILED, _RESET, "RESET_GPU"),
    XidRule(137, "NVLink privilege error", _APPLICATION, _NOTE, _QUIET, "IGNORE"),
    XidRule(140, "unrecovered ECC error", _HARDWARE, _FAILED, _RESET, "RESET_GPU", True),
    XidRule(141, "CUDA fast path error", _APPLICATION, _NOTE, _QUIET, "IGNORE"),
    XidRule(143, "GPU initialization error", _HARDWARE, _FAILED, _REBOOT, "RESET_GPU", True),
    *(
        XidRule(code, f"NVLink error ({unit})", _HARDWARE, _FAILED, _RESET, "WORKFLOW_NVLINK5_ERR")
        for code, unit in zip(_NVLINK5, ("SAW", "RLW", "TLW", "TREX", "NVLPW_CTRL", "NETIR", "MSE"), strict=True)
    ),
    XidRule(151, "key rotation error", _DRIVER, _DEGRADED, _REBOOT, "RESTART_VM"),
    XidRule(154, "the driver's recovery action has changed", _UNKNOWN, _NOTE, _QUIET, "XID_154"),
    XidRule(155, "NVLink error, defined by software", _HARDWARE, _FAILED, _RESET, "RESET_GPU"),
    XidRule(156, "a resource was retired", _HARDWARE, _DEGRADED, _RESET, "RESET_GPU"),
    XidRule(157, "retiring a resource failed", _HARDWARE, _FAILED, _RESET, "IGNORE"),
    XidRule(158, "fatal timeout", _DRIVER, _FAILED, _RESET, "RESET_GPU"),
    XidRule(160, "a memory channel was retired", _HARDWARE, _NOTE, _QUIET, "IGNORE"),
    XidRule(161, "retiring a memory channel failed", _HARDWARE, _FAILED, _RESET, "IGNORE"),
    XidRule(162, "power smoothing is available again", _HARDWARE, _NOTE, _QUIET, ""),
    XidRule(163, "power smoothing is not available", _HARDWARE, _DEGRADED, _RESET, ""),
    XidRule(164, "power smoothing is near the end of its life", _HARDWARE, _NOTE, _QUIET, ""),
    XidRule(165, "power smoothing has reached the end of its life", _HARDWARE, _DEGRADED, _REBOOT, ""),
    XidRule(167, "fatal PCIe timeout", _HARDWARE, _FAILED, _RESET, ""),
    XidRule(168, "errors in the write protected region", _HARDWARE, _DEGRADED, _RESET, ""),
    XidRule(169, "internal micro-controller halt", _DRIVER, _FAILED, _RESET, ""),
    XidRule(171, "details of a double bit ECC error", _HARDWARE, _NOTE, _QUIET, ""),
    XidRule(172, "details of a double bit ECC error", _HARDWARE, _NOTE, _QUIET, ""),
    XidRule(173, "fatal error of the chip-to-chip link", _HARDWARE, _FAILED, _RESET, ""),
    *_engines("copy engine exception", (39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136))),
    *_engines("video decoder exception", (68, 83, 84, 88, 89, 96, 97, 98), frozenset({68})),
    *_engines("JPEG engine exception", (82, *range(99, 106))),
    *_engines("optical flow engine exception", (86, 139)),
)

XID_RULES = {rule.code: rule for rule in _RULES}


def xid_rule(code: int, *, fatal: bool | None = None) -> XidRule:
    """Return the rule for an XID; the verdict is unknown if the catalogue does not explain the XID.

    `fatal` is the severity in the line itself: Blackwell's NVLink errors are fatal or non-fatal, and non-fatal ones
    need no reset. It does not count for others: their lines contain the name of the program.
    """
    rule = XID_RULES.get(code)
    if rule is None:
        return XidRule(code, "not explained by NVIDIA's catalogue", _UNKNOWN, _NOTE, _QUIET, "CONTACT_SUPPORT")
    if fatal is False and code in _NVLINK5:
        return rule._replace(severity=_DEGRADED, clearing=_QUIET)
    return rule
