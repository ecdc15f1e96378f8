"""NVIDIA GPUs graded against the output of nvidia-smi on seven real machines, fact by fact.

The NVML stand-in responds as NVML must have responded to nvidia-smi; a capture carries the responses into discovery.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import pytest

from support.gpus import GpuScan, pci
from support.nvml_results import MIB, captures, ecc_totals, from_capture
from support.snapshots import ABSENT
from zonewise.machine.model.gpu import Fabric, Gpu, Health, Mig
from zonewise.machine.nvml.facts_json import CAPTURED, to_json
from zonewise.machine.nvml.queries import collect_nvml, sysfs_address

if TYPE_CHECKING:
    from collections.abc import Callable

NO_FABRIC = Fabric("N/A", "N/A", None, None)
NONE_UUID = "00000000-0000-0000-0000-000000000000"


@functools.cache
def discovered(name: str) -> GpuScan:
    """Return the discovery of a capture, with its GPUs on the bus and NVML's responses among its files."""
    capture = captures()[name]
    facts = collect_nvml(from_capture(capture))
    addresses = [sysfs_address(gpu["id"]) or "" for gpu in capture["gpus"]]
    return GpuScan([pci(address, driver="nvidia") for address in addresses], {CAPTURED: to_json(facts).encode()})


def health(gpu: Gpu) -> Health:
    assert gpu.health is not None
    return gpu.health


def fabric(gpu: Gpu) -> Fabric:
    return gpu.fabric or NO_FABRIC


def text(value: object) -> str:
    """Return a fact as nvidia-smi prints it."""
    return "N/A" if value is None else str(value)


def number(value: int | bool | None) -> str:
    return "N/A" if value is None else str(int(value))


def flag(value: bool | None, yes: str = "Yes", no: str = "No") -> str:
    return "N/A" if value is None else yes if value else no


def enabled(value: bool | None) -> str:
    return flag(value, "Enabled", "Disabled")


def mig(gpu: Gpu) -> Mig:
    return gpu.mig or Mig(None, None)  # pyright: ignore[reportArgumentType] # neither is known


VIRTUALIZATIONS = {"none": "None", "passthrough": "Pass-Through"}
ADDRESSINGS = {"none": "None", "hmm": "HMM", "ats": "ATS"}
ARCHITECTURES = {"ada-lovelace": "Ada Lovelace"}
ROWS = "remapped_rows"

FACTS: dict[str, tuple[Callable[[Gpu], Any], Callable[[dict[str, Any]], Any]]] = {
    "address": (lambda gpu: gpu.address, lambda smi: sysfs_address(smi["pci"]["pci_bus_id"])),
    "pci_domain": (lambda gpu: (gpu.address or "").split(":")[0], lambda smi: smi["pci"]["pci_domain"].lower()),
    "pci_bus": (lambda gpu: (gpu.address or "").split(":")[1], lambda smi: smi["pci"]["pci_bus"].lower()),
    "pci_device": (lambda gpu: (gpu.address or "")[-4:-2], lambda smi: smi["pci"]["pci_device"].lower()),
    "product_name": (lambda gpu: gpu.model, lambda smi: smi["product_name"]),
    "uuid": (lambda gpu: gpu.uuid, lambda smi: smi["uuid"]),
    "minor": (lambda gpu: number(gpu.minor), lambda smi: smi["minor"]),
    "architecture": (
        lambda gpu: ARCHITECTURES.get(gpu.architecture or "", (gpu.architecture or "").capitalize()),
        lambda smi: smi["architecture"],
    ),
    "memory": (lambda gpu: f"{(gpu.memory or 0) // MIB} MiB", lambda smi: smi["fb_mem"]["total"]),
    "addressing": (lambda gpu: ADDRESSINGS[gpu.addressing or ""], lambda smi: smi["addressing_mode"]),
    "virtualization": (lambda gpu: VIRTUALIZATIONS[gpu.virtualization or ""], lambda smi: smi["virtualization"]),
    "persistence": (lambda gpu: enabled(gpu.persistence), lambda smi: smi["persistence"]),
    "mig_current": (lambda gpu: enabled(mig(gpu).enabled), lambda smi: smi["mig"]["current"]),
    "mig_pending": (lambda gpu: enabled(mig(gpu).pending), lambda smi: smi["mig"]["pending"]),
    "vbios": (lambda gpu: gpu.vbios, lambda smi: smi["vbios"]),
    "firmware": (lambda gpu: gpu.firmware, lambda smi: smi["gsp"]),
    "board_part": (lambda gpu: gpu.board, lambda smi: smi["board_part"]),
    "module_id": (lambda gpu: number(gpu.module_id), lambda smi: smi["platformInfo"]["module_id"]),
    "fabric_state": (lambda gpu: fabric(gpu).state.replace("c", "C", 1), lambda smi: smi["fabric"]["state"]),
    "fabric_status": (
        lambda gpu: text(fabric(gpu).status).replace("s", "S", 1),
        lambda smi: smi["fabric"]["status"],
    ),
    "fabric_clique": (lambda gpu: number(fabric(gpu).clique), lambda smi: smi["fabric"]["cliqueId"]),
    "fabric_cluster": (
        lambda gpu: "N/A" if gpu.fabric is None else fabric(gpu).cluster_uuid or NONE_UUID,
        lambda smi: smi["fabric"]["clusterUuid"],
    ),
    "fabric_attached": (
        lambda gpu: fabric(gpu).attached,
        lambda smi: smi["fabric"]["state"] == "Completed" and smi["fabric"]["clusterUuid"] != NONE_UUID,
    ),
    "fabric_health": (
        lambda gpu: text(fabric(gpu).health).replace("h", "H", 1),
        lambda smi: smi["fabric"]["health"].get("summary", "N/A"),
    ),
    "fabric_route_unhealthy": (
        lambda gpu: "route unhealthy" in (fabric(gpu).faults or ()),
        lambda smi: smi["fabric"]["health"]["route_unhealthy"] == "True",
    ),
    "fabric_route_recovery": (
        lambda gpu: "route recovery" in (fabric(gpu).faults or ()),
        lambda smi: smi["fabric"]["health"]["route_recovery_in_progress"] == "True",
    ),
    "fabric_access_timeout": (
        lambda gpu: "access timeout recovery" in (fabric(gpu).faults or ()),
        lambda smi: smi["fabric"]["health"]["access_timeout_recovery"] == "True",
    ),
    "fabric_bandwidth": (
        lambda gpu: "degraded bandwidth" in (fabric(gpu).faults or ()),
        lambda smi: smi["fabric"]["health"]["bandwidth"] not in ("Full", "N/A"),
    ),
    "fabric_configuration": (
        lambda gpu: any("configuration" in fault for fault in fabric(gpu).faults or ()),
        lambda smi: smi["fabric"]["health"].get("incorrect_configuration", "N/A") not in ("None", "N/A"),
    ),
    "ecc_mode": (lambda gpu: enabled(health(gpu).ecc_enabled), lambda smi: smi["ecc_mode"]),
    "ecc_volatile": (
        lambda gpu: (health(gpu).ecc_corrected, health(gpu).ecc_uncorrected),
        lambda smi: ecc_totals(smi["ecc_errors"]["volatile"]),
    ),
    "ecc_aggregate": (
        lambda gpu: (health(gpu).ecc_lifetime_corrected, health(gpu).ecc_lifetime_uncorrected),
        lambda smi: ecc_totals(smi["ecc_errors"]["aggregate"]),
    ),
    "remapped_correctable": (
        lambda gpu: number(health(gpu).remapped_correctable),
        lambda smi: smi[ROWS].get("remapped_row_corr", "N/A"),
    ),
    "remapped_uncorrectable": (
        lambda gpu: number(health(gpu).remapped_uncorrectable),
        lambda smi: smi[ROWS].get("remapped_row_unc", "N/A"),
    ),
    "remapping_pending": (
        lambda gpu: flag(health(gpu).remapping_pending),
        lambda smi: smi[ROWS].get("remapped_row_pending", "N/A"),
    ),
    "remapping_failed": (
        lambda gpu: flag(health(gpu).remapping_failed),
        lambda smi: smi[ROWS].get("remapped_row_failure", "N/A"),
    ),
    "retired_pages_pending": (
        lambda gpu: flag(health(gpu).retired_pages_pending),
        lambda smi: smi["retired_pages"]["pending_retirement"],
    ),
    "recovery_action": (lambda gpu: text(health(gpu).recovery_action).capitalize(), lambda smi: smi["recovery_action"]),
    "pcie_replays": (lambda gpu: number(health(gpu).pcie_replays), lambda smi: smi["pcie"]["replay"]),
}
"""Our value and nvidia-smi's output for each fact."""

pytestmark = pytest.mark.skipif(not captures(), reason=ABSENT)


@pytest.mark.parametrize("name", captures())
def test_nvidia_smi(name: str) -> None:
    """Every fact about a GPU that both nvidia-smi and we have is equal."""
    expected = {
        sysfs_address(gpu["id"]): {fact: theirs(gpu) for fact, (_, theirs) in FACTS.items()}
        for gpu in captures()[name]["gpus"]
    }
    found = discovered(name).gpus
    assert {gpu.address: {fact: ours(gpu) for fact, (ours, _) in FACTS.items()} for gpu in found} == expected


@pytest.mark.parametrize("name", captures())
def test_the_system(name: str) -> None:
    """Versions and the number of GPUs are equal; these machines have no problem, and every known fact has a source."""
    capture, machine = captures()[name], discovered(name)
    assert {gpu.driver_version for gpu in machine.gpus} == {capture["driver_version"]}
    assert {gpu.cuda_version for gpu in machine.gpus} == {capture["cuda_version"]}
    assert len(machine.gpus) == int(capture["attached_gpus"])
    assert machine.problems == []
    assert {f"gpus.{gpu.address}.uuid" for gpu in machine.gpus} <= set(machine.sources)
