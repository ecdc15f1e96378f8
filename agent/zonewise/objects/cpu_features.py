"""The processor part of Node Feature Discovery's raw features (its source/cpu/*.go)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zonewise.machine.model.machine import X86
from zonewise.objects.cpuid_bits import avx10_version

if TYPE_CHECKING:
    from zonewise.machine.model.cpu import Model
    from zonewise.machine.model.machine import Machine

_VENDORS = {
    "AuthenticAMD": "AMD",
    "AMDisbetter!": "AMD",
    "GenuineIntel": "Intel",
    "HygonGenuine": "Hygon",
    "CentaurHauls": "VIA",
    "VIA VIA VIA": "VIA",
    "GenuineTMx86": "Transmeta",
    "TransmetaCPU": "Transmeta",
    "Geode by NSC": "NSC",
    "Vortex86 SoC": "SiS",
    "SiS SiS SiS": "SiS",
    "RiseRiseRise": "SiS",
    "Genuine  RDC": "RDC",
}
"""vendor_id in /proc/cpuinfo (CPUID leaf 0) -> the name in the Go package klauspost/cpuid."""

_ARM_VENDORS = {
    "ARM": "ARM",
    "Ampere": "Ampere",
    "APM": "AMCC",
    "Broadcom": "Broadcom",
    "Cavium": "Cavium",
    "FUJITSU": "Fujitsu",
    "Marvell": "Marvell",
    "NVIDIA": "NVIDIA",
    "Qualcomm": "Qualcomm",
}
_ARM_BY_ID_REGISTERS = 15
"""The architecture field of MIDR_EL1 on every 64-bit core: the features are in the feature registers."""

_HYPERVISORS = {
    "Apple": "apple",
    "KVM": "kvm",
    "Microsoft": "msvm",
    "QEMU": "qemu",
    "VMware": "vmware",
    "Xen": "xenhvm",
    "bhyve": "bhyve",
}
_PARTITIONS = "PR/SM"
"""The firmware that runs s390 partitions, which NFD does not count as a hypervisor."""

_RDT = {
    "RDTMON": ("cqm",),
    "RDTCMT": ("cqm_occup_llc",),
    "RDTMBM": ("cqm_mbm_local", "cqm_mbm_total"),
    "RDTL3CA": ("cat_l3",),
    "RDTL2CA": ("cat_l2",),
    "RDTMBA": ("mba",),
}
"""NFD's name -> kernel flags, any of which proves the feature."""

_NOMINAL = re.compile(r"Xeon.* @ (\d{1,2}\.\d{1,2})GHz")
"""The frequency in Intel's processor names is that of CPUID leaf 0x16; recent names have none."""

Values = dict[str, object]
"""Values by name; None means unknown."""


def cpu_attributes(machine: Machine) -> dict[str, Values]:
    """Return the attribute features of the domain "cpu"."""
    nx_gzip = any(accelerator.name == "nx_gzip" for accelerator in machine.accelerators)
    features: dict[str, Values] = {
        "cpu.coprocessor": {"nx_gzip": True if nx_gzip else None},
        "cpu.security": _security(machine),
        "cpu.topology": _topology(machine),
    }
    if machine.architecture in X86:
        features["cpu.cpuid"] = {"AVX10_VERSION": avx10_version(machine.model)}
        features["cpu.model"] = _x86_model(machine)
        features["cpu.cstate"] = _cstate(machine)
        features["cpu.pstate"] = _pstate(machine)
        features["cpu.rdt"] = _rdt(machine.model)
        features["cpu.sst"] = {"bf.enabled": True if _has_base_frequencies(machine) else None}
    elif machine.architecture == "aarch64":
        features["cpu.model"] = _arm64_model(machine.model)
    elif machine.architecture == "s390x":
        features["cpu.model"] = _s390x_model(machine)
    return features


def _topology(machine: Machine) -> Values:
    # NFD checks whether the kernel lists siblings for any CPU, as it does for the two cores of an AMD module
    siblings = any(len(core.cpus) > 1 for core in machine.cores)
    modules = any(cluster.kind == "module" for cluster in machine.clusters)
    return {
        "hardware_multithreading": siblings or modules if machine.cores else None,
        "socket_count": len(machine.packages) or None,
    }


def _x86_model(machine: Machine) -> Values:
    model, virtualization = machine.model, machine.virtualization
    hypervisor = "none" if virtualization.guest is False else _HYPERVISORS.get(virtualization.hypervisor or "")
    return {
        "vendor_id": None if model.vendor is None else _VENDORS.get(model.vendor.strip(), "VendorUnknown"),
        "family": model.family,
        "id": model.model,
        "hypervisor": hypervisor,
    }


def _arm64_model(model: Model) -> Values:
    # NFD reads the register MIDR_EL1 if the kernel emulates the access; /proc/cpuinfo prints the register's fields one
    # by one. On a hybrid machine NFD reads the register of the core on which it happens to run
    if "cpuid" not in model.flags or len(model.variants) > 1:
        return {}
    attributes: Values = {}
    if model.vendor is not None:
        attributes["vendor_id"] = _ARM_VENDORS.get(model.vendor, "VendorUnknown")
    stepping = re.fullmatch(r"r(\d+)p(\d+)", model.stepping or "")
    part = re.fullmatch(r"0x[0-9a-f]{1,3}", model.model or "")
    if stepping and part:
        attributes["family"] = int(stepping[1]) << 4 | _ARM_BY_ID_REGISTERS
        attributes["id"] = int(part[0], 16) << 4 | int(stepping[2])
    return attributes


def _s390x_model(machine: Machine) -> Values:
    # NFD's family is the identification of the first processor (getS390xAttributes), which contains a serial number
    hypervisor = machine.virtualization.hypervisor
    return {
        "vendor_id": _label_value(machine.model.vendor),
        "id": machine.mainframe and machine.mainframe.machine_type,
        "hypervisor": "none" if hypervisor == _PARTITIONS else _label_value(hypervisor),
    }


def _label_value(text: str | None) -> str | None:
    return text and re.sub(r"[^-A-Za-z0-9_.]+", "_", text)


def _cstate(machine: Machine) -> Values:
    depth = machine.power.max_cstate
    return {"enabled": None if depth is None else depth > 0}


def _pstate(machine: Machine) -> Values:
    power = machine.power
    if power.pstate in (None, "off"):
        return {}
    attributes: Values = {"status": power.pstate, "turbo": power.turbo}
    if power.pstate == "active" and len(power.governors) == 1:
        attributes["scaling_governor"] = power.governors[0]
    return attributes


def _rdt(model: Model) -> Values:
    return {name: True for name, flags in _RDT.items() if not set(flags).isdisjoint(model.flags)}


def _has_base_frequencies(machine: Machine) -> bool:
    """Return whether some CPUs sustain more than the nominal frequency at the cost of others: SST Base Frequency.

    On hybrid and mobile processors the same comparison means something else.
    """
    nominal = _NOMINAL.search(machine.model.name or "")
    bases = {kind.base_mhz for kind in machine.core_kinds if kind.base_mhz is not None}
    return nominal is not None and len(bases) > 1 and max(bases) > round(float(nominal[1]) * 1000)


def _security(machine: Machine) -> Values:
    security, flags = machine.security, machine.model.flags
    shields = {
        "sev": security.sev,
        "sev.es": security.sev_es,
        "sev.snp": security.sev_snp,
        "se": security.secure_execution,
        "sgx": "sgx" in flags,
        "tdx": security.tdx,
    }
    amounts = {
        "sev.asids": ("sev", "sev"),
        "sev.encrypted_state_ids": ("sev.es", "sev_es"),
        "sgx.epc": ("sgx", "sgx_epc"),
        "tdx.total_keys": ("tdx", "tdx"),
    }
    attributes: Values = {f"{name}.enabled": True for name, on in shields.items() if on}
    attributes.update(
        (name, security.capacities.get(key)) for name, (shield, key) in amounts.items() if shields[shield]
    )
    return {**attributes, "tdx.protected": True if "tdx_guest" in flags else None}
