"""Results for the test double of NVML: the GPUs of the C stub, and those of real machines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from support.snapshots import SNAPSHOTS
from zonewise.machine.nvml.backend import FUNCTION_NOT_FOUND, INVALID_ARGUMENT, NOT_SUPPORTED, NvmlError
from zonewise_sandbox.nvml import NvmlDevice, SimulatedNvml

if TYPE_CHECKING:
    from collections.abc import Mapping

CAPTURES_FILE = SNAPSHOTS / "nvidia-smi" / "expected.json"
MIB = 1 << 20
NO_CLUSTER = "0" * 32


# --- the GPUs of fixtures/nvml_stub.c


def stub_twin() -> SimulatedNvml:
    """Return the same two GPUs as those of the C stub."""
    system = {
        "nvmlSystemGetDriverVersion": "570.86.10",
        "nvmlSystemGetNVMLVersion": "12.570.86.10",
        "nvmlSystemGetCudaDriverVersion": 12080,
    }
    return SimulatedNvml([_stub_gpu(0), _stub_gpu(1)], system)


def _stub_gpu(index: int) -> NvmlDevice:
    buses = ("00000000:3B:00.0", "00010000:3B:00.0")
    absent = NvmlError(FUNCTION_NOT_FOUND)
    results: dict[Any, Any] = {
        "nvmlDeviceGetPciInfo": buses[index],
        "nvmlDeviceGetUUID": f"GPU-00000000-0000-0000-0000-00000000{index:02}00",
        "nvmlDeviceGetName": "Stub S1",
        "nvmlDeviceGetVbiosVersion": "96.00",
        "nvmlDeviceGetGspFirmwareVersion": "570.86.10",
        "nvmlDeviceGetBoardPartNumber": absent,
        "nvmlDeviceGetAddressingMode": absent,
        "nvmlDeviceGetArchitecture": 9,
        "nvmlDeviceGetMinorNumber": index,
        "nvmlDeviceGetModuleId": 2 - index,
        "nvmlDeviceGetPersistenceMode": 1,
        "nvmlDeviceGetPcieReplayCounter": 150,
        "nvmlDeviceGetVirtualizationMode": 1,
        "nvmlDeviceGetMemoryInfo": 81559 * MIB,
        "nvmlDeviceGetCudaComputeCapability": (9, 0),
        "nvmlDeviceGetCurrentClocksEventReasons": 0x49,
        "nvmlDeviceGetFieldValues": NvmlError(INVALID_ARGUMENT),
        "nvmlDeviceGetNvLinkState": NvmlError(INVALID_ARGUMENT),
        ("nvmlDeviceGetNvLinkState", 3): 0,
        ("nvmlDeviceGetGpuFabricInfoV", 3): (bytes(range(0xF0, 0x100)).hex(), 0, 32766, 3, 0x1A9, 3),
    }
    for link in range(3):
        results["nvmlDeviceGetNvLinkState", link] = 1
        results["nvmlDeviceGetNvLinkVersion", link] = 6
        results["nvmlDeviceGetNvLinkRemoteDeviceType", link] = 2 if link == 2 else 0
        results["nvmlDeviceGetNvLinkRemotePciInfo", link] = "FFFFFFFF:FF:FF.0" if link == 2 else buses[1 - index]
    if index:
        return NvmlDevice(results)
    errors = {
        ("nvmlDeviceGetTotalEccErrors", kind, counter): 1 + kind + 2 * counter + (1 << 40)
        for kind in range(2)
        for counter in range(2)
    }
    first = {
        "nvmlDeviceGetNumaNodeId": 2,
        "nvmlDeviceGetEccMode": (1, 1),
        "nvmlDeviceGetRemappedRows": (3, 4, 1, 0),
        ("nvmlDeviceGetFieldValues", 230): 4,
        "nvmlDeviceGetMemoryAffinity": (1 << 1, 1 << 6, *[0] * 14),
        "nvmlDeviceGetMigMode": (1, 0),
        "nvmlDeviceGetMaxMigDeviceCount": 7,
    }
    return NvmlDevice({**results, **errors, **first}, {0: _stub_mig(1), 2: _stub_mig(3)})


def _stub_mig(number: int) -> NvmlDevice:
    return NvmlDevice(
        {
            "nvmlDeviceGetUUID": f"MIG-00000000-0000-0000-0000-0000000000{number:02}",
            "nvmlDeviceGetName": "Stub S1 MIG 1g.10gb",
            "nvmlDeviceGetGpuInstanceId": 6 + number,
            "nvmlDeviceGetComputeInstanceId": 0,
            "nvmlDeviceGetAttributes": (16, 1, 2, 3, 4, 5, 1, 1, 9856),
        }
    )


# --- the GPUs of real machines, from the output of nvidia-smi


def captures() -> dict[str, dict[str, Any]]:
    """Return the captures of nvidia-smi by name; empty if the data are not beside the project."""
    return json.loads(CAPTURES_FILE.read_text()) if CAPTURES_FILE.exists() else {}


def from_capture(capture: Mapping[str, Any]) -> SimulatedNvml:
    """Return NVML with the results that made nvidia-smi print a capture."""
    major, minor = capture["cuda_version"].split(".")
    system = {
        "nvmlSystemGetDriverVersion": capture["driver_version"],
        "nvmlSystemGetCudaDriverVersion": 1000 * int(major) + 10 * int(minor),
    }
    return SimulatedNvml([NvmlDevice(_results(gpu)) for gpu in capture["gpus"]], system)


_ARCHITECTURES = {"Turing": 6, "Ampere": 7, "Ada Lovelace": 8, "Hopper": 9, "Blackwell": 10}
_FLAGS = {"Disabled": 0, "Enabled": 1, "No": 0, "Yes": 1}
_VIRTUALIZATIONS = {"None": 0, "Pass-Through": 1}
_ADDRESSINGS = {"None": 0, "HMM": 1, "ATS": 2}
_ACTIONS = {"None": 0}


def _results(gpu: Mapping[str, Any]) -> dict[Any, Any]:
    rows, errors = gpu["remapped_rows"], gpu["ecc_errors"]
    results: dict[Any, Any] = {
        "nvmlDeviceGetPciInfo": gpu["id"],
        "nvmlDeviceGetUUID": gpu["uuid"],
        "nvmlDeviceGetName": gpu["product_name"],
        "nvmlDeviceGetVbiosVersion": gpu["vbios"],
        "nvmlDeviceGetGspFirmwareVersion": gpu["gsp"],
        "nvmlDeviceGetBoardPartNumber": gpu["board_part"],
        "nvmlDeviceGetArchitecture": _ARCHITECTURES[gpu["architecture"]],
        "nvmlDeviceGetMemoryInfo": int(gpu["fb_mem"]["total"].removesuffix(" MiB")) * MIB,
        "nvmlDeviceGetMinorNumber": int(gpu["minor"]),
        "nvmlDeviceGetModuleId": _number(gpu["platformInfo"]["module_id"]),
        "nvmlDeviceGetPersistenceMode": _FLAGS[gpu["persistence"]],
        "nvmlDeviceGetVirtualizationMode": _VIRTUALIZATIONS[gpu["virtualization"]],
        "nvmlDeviceGetAddressingMode": _ADDRESSINGS[gpu["addressing_mode"]],
        "nvmlDeviceGetMigMode": _pair(gpu["mig"]["current"], gpu["mig"]["pending"]),
        "nvmlDeviceGetEccMode": _pair(gpu["ecc_mode"], gpu["ecc_mode"]),
        "nvmlDeviceGetRemappedRows": _rows(rows),
        "nvmlDeviceGetRetiredPagesPendingStatus": _flag(gpu["retired_pages"]["pending_retirement"]),
        "nvmlDeviceGetPcieReplayCounter": int(gpu["pcie"]["replay"]),
        ("nvmlDeviceGetFieldValues", 230): _ACTIONS[gpu["recovery_action"]],
        **_fabric(gpu["fabric"]),
    }
    for counter, name in enumerate(("volatile", "aggregate")):
        for kind, total in enumerate(ecc_totals(errors[name])):
            results["nvmlDeviceGetTotalEccErrors", kind, counter] = total
    return results


def ecc_totals(errors: Mapping[str, str]) -> tuple[int, int]:
    """Return the corrected and the uncorrected errors of all kinds of memory."""
    corrected = sum(int(number) for name, number in errors.items() if name.endswith("_correctable"))
    uncorrected = sum(int(number) for name, number in errors.items() if "_uncorrectable" in name)
    return corrected, uncorrected


def _fabric(fabric: Mapping[str, Any]) -> dict[Any, Any]:
    if fabric["state"] == "N/A":
        return {}
    health = fabric["health"]
    flags = ("route_recovery_in_progress", "route_unhealthy", "access_timeout_recovery")
    mask = {"N/A": 0, "Degraded": 1, "Full": 2}[health["bandwidth"]]
    mask |= sum({"N/A": 0, "True": 1, "False": 2}[health[flag]] << 2 * index for index, flag in enumerate(flags, 1))
    mask |= {"N/A": 0, "None": 1}[health.get("incorrect_configuration", "N/A")] << 8
    uuid = fabric["clusterUuid"].replace("-", "")
    result = (uuid, {"Success": 0}[fabric["status"]], int(fabric["cliqueId"]), {"Completed": 3}[fabric["state"]], mask)
    if "summary" not in health:
        return {("nvmlDeviceGetGpuFabricInfoV", 2): result}
    return {("nvmlDeviceGetGpuFabricInfoV", 3): (*result, {"N/A": 0, "Healthy": 1}[health["summary"]])}


def _rows(rows: Mapping[str, str]) -> Any:
    if not rows:  # GPUs before Ampere retire pages instead
        return NvmlError(NOT_SUPPORTED)
    counts = (int(rows["remapped_row_corr"]), int(rows["remapped_row_unc"]))
    return (*counts, _FLAGS[rows["remapped_row_pending"]], _FLAGS[rows["remapped_row_failure"]])


def _number(text: str) -> Any:
    return NvmlError(NOT_SUPPORTED) if text == "N/A" else int(text)


def _flag(text: str) -> Any:
    return NvmlError(NOT_SUPPORTED) if text == "N/A" else _FLAGS[text]


def _pair(first: str, second: str) -> Any:
    return NvmlError(NOT_SUPPORTED) if "N/A" in (first, second) else (_FLAGS[first], _FLAGS[second])
