"""Raw features, which NFD's rules match and from which its labels follow."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings

from support.any_machines import any_machines
from support.machine_parts import cpus
from support.machines import gpu_server, small_vm
from zonewise.machine.model.cpu import Cluster, Core, CoreKind, Model
from zonewise.machine.model.host import Accelerator, Firmware, Kernel, Power, Security, UsbDevice
from zonewise.machine.model.machine import Machine
from zonewise.machine.model.network import Nic
from zonewise.nfd.worker_config import WorkerConfig
from zonewise.objects.feature_groups import FEATURE_GROUPS, KERNEL_CONFIG, KERNEL_ENABLED_MODULE
from zonewise.objects.features import Features, node_features, published_features
from zonewise.objects.labels import validate_labels
from zonewise.objects.nfd_labels import nfd_labels

PREFIX = "feature.node.kubernetes.io/"


def labels(machine: Machine) -> dict[str, str]:
    return {name.removeprefix(PREFIX): value for name, value in nfd_labels(node_features(machine)).items()}


def x86(flags: str = "", **more: str) -> Machine:
    return Machine(architecture="x86_64", model=Model(flags=tuple(flags.split()))._replace(**more))


def test_a_machine_without_facts_has_no_features() -> None:
    """A machine without known facts has no features."""
    assert node_features(Machine()) == Features({}, {}, {})


def test_the_name_of_the_node_is_a_feature_of_the_system() -> None:
    """It is absent if it is unknown, not to be published, or if its source is disabled."""
    features = node_features(Machine(), node_name="node-7")
    assert features.attributes == {"system.name": {"nodename": "node-7"}}
    without_system = WorkerConfig(feature_sources=frozenset({"cpu"}))
    assert node_features(Machine(), worker=without_system, node_name="node-7") == Features({}, {}, {})
    unpublished = WorkerConfig(no_publish_features=("system.*",))
    assert published_features(features, unpublished) == Features({}, {}, {})


def test_flags_are_those_of_cpuid() -> None:
    """Raw features include those that labels omit, and those that follow from a flag."""
    assert node_features(x86("sse xsave abm")).flags["cpu.cpuid"] == (
        "FXSROPT",
        "LZCNT",
        "OSXSAVE",
        "SSE",
        "XSAVE",
    )
    assert set(labels(x86("sse xsave abm"))) == {f"cpu-cpuid.{name}" for name in ("FXSROPT", "OSXSAVE", "XSAVE")}


@pytest.mark.parametrize(
    ("vendor", "family", "model", "slow"),
    [
        ("GenuineIntel", "6", "58", True),
        ("GenuineIntel", "6", "60", False),
        ("AuthenticAMD", "23", "1", True),
        ("AuthenticAMD", "23", "49", False),
        ("AuthenticAMD", "21", "96", True),
        ("AuthenticAMD", "25", "1", False),
        ("HygonGenuine", "24", "0", False),
    ],
)
def test_slow_avx(vendor: str, family: str, model: str, slow: bool) -> None:
    """Before Haswell and Zen 2, 256-bit operations were executed in two halves."""
    machine = x86("avx", vendor=vendor, family=family, model=model)
    assert ("AVXSLOW" in node_features(machine).flags["cpu.cpuid"]) == slow


@pytest.mark.parametrize(
    ("power", "expected"),
    [
        (Power("intel_idle", 9), {"cpu-cstate.enabled": "true"}),
        (Power("intel_idle", 0), {"cpu-cstate.enabled": "false"}),
        (Power("acpi_idle"), {}),
        (
            Power(None, None, "active", True, ("performance",)),
            {"cpu-pstate.status": "active", "cpu-pstate.turbo": "true", "cpu-pstate.scaling_governor": "performance"},
        ),
        (
            Power(None, None, "active", False, ("performance", "powersave")),
            {"cpu-pstate.status": "active", "cpu-pstate.turbo": "false"},
        ),
        (Power(None, None, "passive", None, ("schedutil",)), {"cpu-pstate.status": "passive"}),
        (Power(None, None, "off", None, ("ondemand",)), {}),
        (Power(None, None, None, True, ("performance",)), {}),
    ],
)
def test_power(power: Power, expected: dict[str, str]) -> None:
    """Idle states with Intel's driver; its mode and turbo; and in active mode, a governor that all CPUs share."""
    assert labels(x86()._replace(power=power)) == expected
    assert labels(Machine(architecture="aarch64", power=power)) == {}


def test_security() -> None:
    """Enabled features have labels; their capacities are for extended resources."""
    security = Security(
        selinux=True, kvm=True, tdx=True, sev=True, sev_es=False, sev_snp=None, secure_execution=True,
        capacities={"sev": 410, "sev_es": 99, "sgx_epc": 4096, "tdx": 31},
    )  # fmt: skip
    machine = x86("sgx tdx_guest")._replace(security=security)
    assert labels(machine) == {
        "cpu-security.se.enabled": "true",
        "cpu-security.sev.enabled": "true",
        "cpu-security.sgx.enabled": "true",
        "cpu-security.tdx.enabled": "true",
        "cpu-security.tdx.protected": "true",
        "kernel-selinux.enabled": "true",
    }
    raw = node_features(machine).attributes["cpu.security"]
    assert {name: raw[name] for name in ("sev.asids", "sgx.epc", "tdx.total_keys")} == {
        "sev.asids": "410",
        "sgx.epc": "4096",
        "tdx.total_keys": "31",
    }
    assert "sev.encrypted_state_ids" not in raw
    assert node_features(machine).attributes["kernel.kvm"] == {"enabled": "true"}


def test_selinux_that_does_not_enforce() -> None:
    """A disabled SELinux is a fact for rules but has no label."""
    machine = Machine(security=Security(selinux=False))
    assert node_features(machine).attributes["kernel.selinux"] == {"enabled": "false"}
    assert labels(machine) == {}


def test_base_frequencies() -> None:
    """Cores that sustain more than the processor's nominal frequency have SST-BF."""
    name = "Intel(R) Xeon(R) Gold 6252N CPU @ 2.30GHz"
    kinds = (CoreKind(None, cpus("0-7"), base_mhz=2800.0), CoreKind(None, cpus("8-23"), base_mhz=2100.0))
    assert labels(x86(name=name)._replace(core_kinds=kinds)) == {"cpu-power.sst_bf.enabled": "true"}
    assert labels(x86(name=name)._replace(core_kinds=kinds[1:])) == {}
    for other in ("Intel(R) Xeon(R) Platinum 8480+", "Intel(R) Core(TM) i7-8550U CPU @ 1.80GHz"):
        assert labels(x86(name=other)._replace(core_kinds=kinds)) == {}


def test_a_coprocessor() -> None:
    """POWER's processors have a compression coprocessor."""
    accelerator = Accelerator("nx_gzip", None, None, "compression", None, None, None)
    assert labels(Machine(architecture="ppc64le", accelerators=(accelerator,))) == {"cpu-coprocessor.nx_gzip": "true"}


def test_resource_director() -> None:
    """The kernel's flags of Intel RDT are raw features without labels."""
    machine = x86("cqm cqm_mbm_total cat_l3 mba")
    assert node_features(machine).attributes["cpu.rdt"] == dict.fromkeys(
        ("RDTL3CA", "RDTMBA", "RDTMBM", "RDTMON"), "true"
    )
    assert labels(machine) == {}


@pytest.mark.parametrize(("swap", "expected"), [(1 << 30, {"memory-swap": "true"}), (0, {}), (None, {})])
def test_swap(swap: int | None, expected: dict[str, str]) -> None:
    """The label is memory-swap, unlike in the documentation."""
    assert labels(Machine(swap=swap)) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {"ID": "ubuntu", "VERSION_ID": "24.04", "NAME": "Ubuntu"},
            {"ID": "ubuntu", "VERSION_ID": "24.04", "VERSION_ID.major": "24", "VERSION_ID.minor": "04"},
        ),
        ({"ID": "debian", "VERSION_ID": "12"}, {"ID": "debian", "VERSION_ID": "12", "VERSION_ID.major": "12"}),
        ({"ID": "rhel", "VERSION_ID": "9.4.1"}, {"ID": "rhel", "VERSION_ID": "9.4.1", "VERSION_ID.major": "9",
                                                 "VERSION_ID.minor": "4"}),
        ({"ID": "arch"}, {"ID": "arch"}),
        ({"VERSION_ID": "v1.2"}, {"VERSION_ID": "v1.2"}),
    ],
)  # fmt: skip
def test_the_distribution(fields: dict[str, str], expected: dict[str, str]) -> None:
    """Labels have the name, the version and its numbers; rules can match every field."""
    machine = Machine(os_release=fields)
    assert labels(machine) == {f"system-os_release.{name}": value for name, value in expected.items()}
    assert fields.items() <= node_features(machine).attributes["system.osrelease"].items()


def test_usb() -> None:
    """Devices of NFD's classes have labels by class, vendor and product; all others are only for rules."""
    devices = (UsbDevice("1-1", "046d", "0825", ("01", "0e")), UsbDevice("1-2", "0403", "6014", ("ff",)),
               UsbDevice("1-3", None, "6014", ("ff",)), UsbDevice("usb1", "1d6b", "0002", ("09",)))  # fmt: skip
    machine = Machine(usb=devices)
    assert labels(machine) == {"usb-0e_046d_0825.present": "true", "usb-ff_0403_6014.present": "true"}
    hub = {"name": "usb1", "class": "09", "vendor": "1d6b", "device": "0002"}
    assert hub in node_features(machine).instances["usb.device"]


def test_dmi() -> None:
    """The firmware's names have the names of the kernel's attributes; serial numbers are not included."""
    machine = Machine(firmware=Firmware(vendor="Dell Inc.", product="XE9680", bios_date="07/04/2025"))
    assert node_features(machine).attributes["system.dmiid"] == {
        "bios_date": "07/04/2025",
        "product_name": "XE9680",
        "sys_vendor": "Dell Inc.",
    }


def veth(number: int) -> Nic:
    return Nic(f"veth{number:08x}", None, None, None, 10000, "up", None, "Ethernet", None, None, virtual=True,
               kind="veth")  # fmt: skip


def test_pods_do_not_change_features() -> None:
    """Neither netdevs nor virtual functions of pods are features."""
    machine = gpu_server()
    before = node_features(machine)
    own = next(nic for nic in machine.nics if nic.address is not None)
    more = (*machine.nics, *map(veth, range(200)), own._replace(name="vf0", physical_function=own.address))
    assert node_features(machine._replace(nics=more)) == before


def test_a_bond_is_a_feature() -> None:
    """Devices that an administrator creates are features."""
    bond = Nic("bond0", None, None, None, 50000, "up", None, "Ethernet", None, None, 9000, virtual=True, kind="bond",
               printed_speed=50000)  # fmt: skip
    assert node_features(Machine(nics=(bond,))).instances == {
        "network.virtual": ({"mtu": "9000", "name": "bond0", "operstate": "up", "speed": "50000"},)
    }


@pytest.mark.parametrize("machine", [gpu_server(), small_vm()])
def test_size(machine: Machine) -> None:
    """The object of a node is some KB, not the 130 KB of NFD's worker."""
    assert len(json.dumps(node_features(machine))) < 20_000


def test_options_of_the_kernel() -> None:
    """By default, the options that matter to placement are included; with the group, all options that are set."""
    lines = "NUMA=y\nXFS_FS=m\nLOCALVERSION=\nA=b=c"
    machine = Machine(kernel=Kernel("6.8.0", config={"NUMA": "y", "NO_HZ": "n"}, config_lines=lines))
    assert node_features(machine).attributes["kernel.config"] == {"NUMA": "y"}
    assert node_features(machine, (KERNEL_CONFIG,)).attributes["kernel.config"] == {
        "A": "b=c",
        "LOCALVERSION": "",
        "NUMA": "y",
        "XFS_FS": "m",
    }


@pytest.mark.parametrize(
    ("builtin", "groups", "expected"),
    [
        (("ext4", "nvme"), (KERNEL_ENABLED_MODULE,), ("ext4", "nvme", "xfs")),
        (("ext4", "nvme"), (), None),
        (None, (KERNEL_ENABLED_MODULE,), None),
    ],
)
def test_enabled_modules(
    builtin: tuple[str, ...] | None, groups: tuple[str, ...], expected: tuple[str, ...] | None
) -> None:
    """A module is loaded or built in; the attribute is absent if the built-in modules are unknown."""
    machine = Machine(kernel=Kernel("6.8.0", modules=("nvme", "xfs"), builtin_modules=builtin))
    assert node_features(machine, groups).flags.get("kernel.enabledmodule") == expected


def test_cores_of_modules() -> None:
    """The kernel lists the two cores of a module as siblings, so NFD counts them as threads."""
    cores = (Core(0, 0, 0, cpus("0")), Core(1, 0, 0, cpus("1")))
    machine = Machine(cores=cores)
    assert node_features(machine).attributes["cpu.topology"] == {"hardware_multithreading": "false"}
    for kind, expected in (("module", "true"), ("cluster", "false")):
        with_pair = machine._replace(clusters=(Cluster(None, 0, cpus("0-1"), kind),))
        assert node_features(with_pair).attributes["cpu.topology"] == {"hardware_multithreading": expected}


def test_a_kernel_without_huge_pages() -> None:
    """NFD reports that huge pages are not enabled."""
    machine = Machine(zones=tuple(zone._replace(hugepages={}) for zone in gpu_server().zones))
    assert node_features(machine).attributes["memory.hugepages"] == {"enabled": "false"}


def test_unknown_hugepages() -> None:
    """The sum of a page size is unknown if a zone with memory does not report its pages; that is not zero."""
    first, second, *_ = gpu_server().zones

    def hugepages(*pools: dict[str, int], memory: int | None = 1) -> dict[str, str]:
        zones = (first._replace(hugepages=pools[0]), second._replace(hugepages=pools[1], memory=memory))
        return node_features(Machine(zones=zones)).attributes.get("memory.hugepages", {})

    both = {"2Mi": 512, "1Gi": 0}
    assert hugepages(both, {"1Gi": 0}) == {"enabled": "true", "hugepages-1Gi": "0"}
    assert hugepages({"1Gi": 0}, {}) == {}
    assert hugepages(both, {}, memory=0) == {"enabled": "true", "hugepages-1Gi": "0", "hugepages-2Mi": "512"}


@settings(max_examples=50)  # drawing a machine takes far longer than describing it
@given(any_machines())
def test_any_machine_has_features(machine: Machine) -> None:
    """For any machine, names are sorted, values are non-empty texts, and labels are valid."""
    features = node_features(machine, FEATURE_GROUPS)
    for part in features:
        assert list(part) == sorted(part)
        assert all(part.values())
        assert all(name.count(".") == 1 and name == name.lower() for name in part)
    assert all(isinstance(text, str) for values in features.attributes.values() for text in values.values())
    assert features == node_features(machine, FEATURE_GROUPS)
    assert len(features.instances.get("pci.device", ())) == len(machine.pci)
    validate_labels(nfd_labels(features))
