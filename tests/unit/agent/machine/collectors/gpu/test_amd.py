"""Facts of AMD GPUs from amdgpu: their attributes, and the compute topology of captured machines."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.damage import DAMAGES, Damage, Damaged
from support.gpus import DEVICES, GpuScan, amd_tree, pci, zones
from support.snapshots import ABSENT, SNAPSHOTS
from support.trees import Contents, line
from zonewise.machine.archive import open_root
from zonewise.machine.collectors.gpu.gpus import find_gpus
from zonewise.machine.files import MemoryFiles
from zonewise.machine.model.gpu import Partition, XgmiPeer
from zonewise.machine.model.machine import Machine
from zonewise.machine.reader import Reader

TOPOLOGY = "sys/class/kfd/kfd/topology"
ADDRESS = "0000:63:00.0"


def amd(*addresses: str) -> list[Any]:
    return [pci(address, "1002", "1200", device="74a1", driver="amdgpu") for address in addresses]


def node(number: int, **properties: int) -> Contents:
    """Return a GPU node of the compute topology."""
    default = {
        "cpu_cores_count": 0,
        "simd_count": 416,
        "simd_per_cu": 4,
        "gfx_target_version": 90010,
        "location_id": 0x6300,
        "domain": 0,
        "drm_render_minor": 128,
        "hive_id": 0,
        "unique_id": 0xE3A8A1A2B3C4D5E6,
        "max_engine_clk_ccompute": 2450,
    }
    text = "".join(f"{name} {value}\n" for name, value in {**default, **properties}.items())
    bank = b"heap_type 1\nsize_in_bytes 68702699520\nflags 0\n"
    return {
        f"{TOPOLOGY}/nodes/{number}/properties": text.encode(),
        f"{TOPOLOGY}/nodes/{number}/mem_banks/0/properties": bank,
    }


def link(number: int, from_node: int, to: int, kind: int = 11, slowest: int = 50000, every: int = 100000) -> Contents:
    """Return a link of a node."""
    values = {
        "type": kind,
        "node_from": number,
        "node_to": to,
        "weight": 15,
        "min_bandwidth": slowest,
        "max_bandwidth": every,
    }
    text = "".join(f"{name} {value}\n" for name, value in values.items())
    return {f"{TOPOLOGY}/nodes/{number}/io_links/{from_node}/properties": text.encode()}


CPU_NODE: Contents = {
    f"{TOPOLOGY}/nodes/0/properties": b"cpu_cores_count 64\nsimd_count 0\nlocation_id 0\nmax_engine_clk_ccompute 2450\n"
}


# --- attributes


def test_the_attributes_of_a_gpu() -> None:
    """Model, memory, identity, partition mode, error counts and device numbers are read."""
    tree = {**amd_tree(ADDRESS), "sys/module/amdgpu/version": line("6.8.5")}
    discovered = GpuScan(amd(ADDRESS), tree)
    gpu = discovered.gpus[0]
    assert (gpu.model, gpu.memory, gpu.uuid) == ("AMD Instinct MI300X OAM", 206141652992, "GPU-e3a8a1a2b3c4d5e6")
    assert (gpu.partition, gpu.minor, gpu.number) == ("spx_nps1", 128, 1)
    assert (gpu.vbios, gpu.driver_version) == ("113-M3000100-102", "6.8.5")
    assert gpu.health is not None
    assert (gpu.health.ecc_corrected, gpu.health.ecc_uncorrected, gpu.health.pcie_replays) == (7, 1, 2)
    assert discovered.problems == []


def test_attributes_absent_from_a_kernel_are_unknown() -> None:
    """Attributes that older kernels and simpler GPUs lack are not a problem; memory, which every GPU has, is one."""
    names = "product_name product_number unique_id pcie_replay_count ras/umc_err_count current_memory_partition"
    names += " current_compute_partition available_compute_partition"
    discovered = GpuScan(amd(ADDRESS), amd_tree(ADDRESS, **dict.fromkeys(names.split())))
    gpu = discovered.gpus[0]
    assert (gpu.model, gpu.uuid, gpu.health, gpu.partition, discovered.problems) == (None, None, None, None, [])
    for tree, what in (({}, "is absent"), (amd_tree(ADDRESS, mem_info_vram_total=""), "contains nothing")):
        [problem] = GpuScan(amd(ADDRESS), tree).said(f"memory of {ADDRESS} is unknown")
        assert problem.problem == what


def test_an_attribute_lost_beside_its_sibling_is_reported() -> None:
    """The driver creates some attributes together, so one implies the other."""
    discovered = GpuScan(amd(ADDRESS), amd_tree(ADDRESS, product_name=None))
    assert discovered.said("product_name")
    assert discovered.gpus[0].model is None


def test_errors_with_the_accelerator_check_architecture() -> None:
    """The driver then has other files, which also count deferred errors."""
    own = amd_tree(ADDRESS, **{"ras/umc_err_count": None, "ras/aca_umc": "ue: 3\nce: 4\nde: 5"})
    health = GpuScan(amd(ADDRESS), own).gpus[0].health
    assert health is not None
    assert (health.ecc_uncorrected, health.ecc_corrected) == (3, 4)


@pytest.mark.parametrize("state", ["suspended", "suspending", "resuming"])
def test_a_gpu_that_sleeps_has_unknown_errors(state: str) -> None:
    """Its registers read as ones, which the driver would count."""
    discovered = GpuScan(amd(ADDRESS), amd_tree(ADDRESS, **{"power/runtime_status": state}))
    assert (discovered.gpus[0].health, discovered.problems) == (None, [])


@pytest.mark.parametrize("content", ["ue: x", "ue: 1", "garbage"])
def test_counts_that_are_not_numbers_are_reported(content: str) -> None:
    """A partly readable count does not give the other part."""
    discovered = GpuScan(amd(ADDRESS), amd_tree(ADDRESS, **{"ras/umc_err_count": content}))
    assert discovered.said("does not count errors")
    assert discovered.gpus[0].health is not None
    assert discovered.gpus[0].health.ecc_corrected is None


# --- the compute topology


def test_the_topology_fills_what_attributes_lack() -> None:
    """It adds instruction set, architecture and compute units, and identity and memory if attributes are missing."""
    discovered = GpuScan(amd(ADDRESS), {**CPU_NODE, **node(1)})
    gpu = discovered.gpus[0]
    assert (gpu.compute_capability, gpu.architecture, gpu.compute_units, gpu.simds) == ("gfx90a", "cdna2", 104, 416)
    assert (gpu.uuid, gpu.memory, gpu.minor) == ("GPU-e3a8a1a2b3c4d5e6", 68702699520, 128)
    assert (gpu.partitions, gpu.xgmi, gpu.hive, discovered.problems) == ((), (), None, [])


@pytest.mark.parametrize(
    ("version", "target", "architecture"),
    [
        (90402, "gfx942", "cdna3"),
        (90500, "gfx950", "cdna4"),
        (90008, "gfx908", "cdna"),
        (90006, "gfx906", "gcn5"),
        (100300, "gfx1030", "rdna2"),
        (110000, "gfx1100", "rdna3"),
        (110501, "gfx1151", "rdna3.5"),
        (120001, "gfx1201", "rdna4"),
        (70001, "gfx701", None),
        (0, None, None),
    ],
)
def test_instruction_sets(version: int, target: str | None, architecture: str | None) -> None:
    """The number consists of major, minor and stepping; in the name, the last two are hexadecimal digits."""
    gpu = GpuScan(amd(ADDRESS), node(1, gfx_target_version=version)).gpus[0]
    assert (gpu.compute_capability, gpu.architecture) == (target, architecture)


@pytest.mark.parametrize("locations", [(0x6300, 0x6301, 0x6302), (0x6300, 0x10006300, 0x20006300)])
def test_partitions_form_a_single_gpu(locations: tuple[int, ...]) -> None:
    """Old and new kernels number the partitions in different bits of the location; all of them are one PCI function."""
    tree: Contents = {}
    for number, location in enumerate(locations):
        tree |= node(number + 1, location_id=location, drm_render_minor=128 + number, simd_count=152)
    for name, minor in (("amdgpu_xcp_9", 129), ("amdgpu_xcp_30", 130), ("amdgpu_xcp_31", 131), ("other", 128)):
        tree |= {f"sys/devices/platform/{name}/drm/{entry}": None for entry in (f"card{minor}", f"renderD{minor}")}
    (gpu,) = GpuScan(amd(ADDRESS), tree).gpus
    assert gpu.partitions == tuple(
        Partition(number, 128 + number, 68702699520, 38, 152, device)
        for number, device in enumerate((None, "amdgpu_xcp_9", "amdgpu_xcp_30"))
    )
    assert (gpu.memory, gpu.compute_units) == (3 * 68702699520, 114)


def test_xgmi_reaches_the_gpus_of_the_hive() -> None:
    """Parallel links are counted by bandwidth. Links to a GPU's own partitions and links over PCIe do not count."""
    second_address = "0000:43:00.0"
    tree: Contents = {
        **node(1, hive_id=0xABC),
        **node(2, hive_id=0xABC, location_id=0x4300, unique_id=7),
        **node(3, location_id=0x6301, hive_id=0xABC),
        **link(1, 0, 0, kind=2),
        **link(1, 1, 2),
        **link(1, 2, 3),
        **link(2, 0, 1, slowest=0, every=0),
    }
    gpus = {gpu.address: gpu for gpu in GpuScan(amd(ADDRESS, second_address), tree).gpus}
    assert gpus[ADDRESS].xgmi == (XgmiPeer(second_address, 2, 100000, 15),)
    assert gpus[second_address].xgmi == (XgmiPeer(ADDRESS, None, None, 15),)
    assert {gpu.hive for gpu in gpus.values()} == {"0000000000000abc"}


def test_a_gpu_that_pci_does_not_list_is_not_invented() -> None:
    """A garbled location in the topology does not add a GPU. If there is no PCI at all, the driver's data is used."""
    discovered = GpuScan(amd(ADDRESS), {**node(1), **node(2, location_id=0x7700)})
    assert [gpu.address for gpu in discovered.gpus] == [ADDRESS]
    assert discovered.said("names a GPU at 0000:77:00.0")
    without = GpuScan([], {**node(1, domain=0x10000)})
    assert [(gpu.address, gpu.zone, gpu.driver) for gpu in without.gpus] == [("10000:63:00.0", None, "amdgpu")]
    assert without.said("lists nothing")


def test_two_gpus_cannot_share_an_address() -> None:
    """A node with the address of another GPU is omitted and reported."""
    discovered = GpuScan(amd(ADDRESS), {**node(1), **node(2, unique_id=5)})
    assert discovered.gpus[0].partitions == ()
    assert discovered.said("describes another GPU")


def test_only_whole_lines_of_a_truncated_file_count() -> None:
    """A truncated location is another location, so the last line of a truncated file is ignored."""
    text = node(1)[f"{TOPOLOGY}/nodes/1/properties"]
    assert isinstance(text, bytes)
    cut = text[: text.index(b"25344") + 3]
    discovered = GpuScan(amd(ADDRESS), {f"{TOPOLOGY}/nodes/1/properties": cut})
    assert discovered.said("is truncated")
    assert discovered.gpus[0].compute_units is None


def test_the_topology_is_not_read_without_need() -> None:
    """A machine with PCI but without an AMD GPU may have the driver for its processors; nothing is read there."""
    discovered = GpuScan([pci("0000:3b:00.0", driver="nvidia")], {f"{TOPOLOGY}/nodes/1/properties": b"garbage"})
    assert discovered.problems == []


# --- captured machines


@functools.cache
def captured(name: str) -> Contents:
    """Return the topology of a captured machine as a tree below the root of a machine."""
    files = open_kfd(name)
    tree: Contents = {}

    def copy(source: str, target: str) -> None:
        for entry in files.names(source):
            path = f"{source}/{entry}" if source else entry
            try:
                tree[f"{target}/{entry}"] = files.read(path)
            except IsADirectoryError:
                copy(path, f"{target}/{entry}")

    copy("sys", TOPOLOGY)
    return tree


def open_kfd(name: str) -> Any:
    """Open an archive whose files are below a directory `nodes`, as if it were in `sys`."""
    import lzma
    import tarfile

    entries: list[tuple[str, bytes | str | None]] = []
    with lzma.open(SNAPSHOTS / "amd-kfd" / f"{name}.tar.xz") as content, tarfile.open(fileobj=content) as tar:
        for member in tar:
            _, discovered, rest = member.name.partition("/nodes/")
            if discovered and member.isreg():
                file = tar.extractfile(member)
                entries.append((f"sys/nodes/{rest}", file.read() if file else b""))
    return MemoryFiles(entries)


def gpu_nodes(tree: Contents) -> dict[int, dict[str, int]]:
    """Return the properties of the GPU nodes, read in the simplest way."""
    discovered: dict[int, dict[str, int]] = {}
    for path, content in tree.items():
        parts = path.removeprefix(f"{TOPOLOGY}/nodes/").split("/")
        if parts[1:] == ["properties"] and isinstance(content, bytes):
            own = {name: int(value) for name, value in (text.split() for text in content.decode().splitlines())}
            if own["simd_count"]:
                discovered[int(parts[0])] = own
    return discovered


def whole_gpus(tree: Contents) -> list[str]:
    """Return the addresses of the PCI functions that contain the nodes of a tree."""
    own = {
        f"{slowest.get('domain', 0):04x}:{slowest['location_id'] >> 8 & 0xFF:02x}:00.0"
        for slowest in gpu_nodes(tree).values()
    }
    return sorted(own)


CAPTURES = ["topo-mi210-xgmi-pcie", "topo-mi300-cpx", "topology-parsing", "topology-parsing-mi308"]
needs_captures = pytest.mark.skipif(not (SNAPSHOTS / "amd-kfd").exists(), reason=ABSENT)


@needs_captures
@pytest.mark.parametrize(
    ("name", "gpus", "partitions", "units", "target", "peers"),
    [
        ("topo-mi210-xgmi-pcie", 8, 0, 104, "gfx90a", 3),
        ("topo-mi300-cpx", 8, 8, 8 * 38, "gfx942", 7),
        ("topology-parsing-mi308", 8, 4, 4 * 20, "gfx942", 7),
    ],
)
def test_captured_machines(name: str, gpus: int, partitions: int, units: int, target: str, peers: int) -> None:
    """Each has 8 GPUs: two XGMI groups of 4; 8 in partitions of 1/8; 8 in partitions of 1/4."""
    tree = captured(name)
    discovered = GpuScan(amd(*whole_gpus(tree)), tree)
    assert [gpu.address for gpu in discovered.gpus] == whole_gpus(tree)
    assert len(discovered.gpus) == gpus
    # one of the partitioned captures lacks one node
    nodes = len(gpu_nodes(tree))
    assert sum(max(1, len(gpu.partitions)) for gpu in discovered.gpus) == nodes
    assert max(len(gpu.partitions) for gpu in discovered.gpus) == partitions
    assert max(gpu.compute_units or 0 for gpu in discovered.gpus) == units
    assert {gpu.compute_capability for gpu in discovered.gpus} == {target}
    assert {len(gpu.xgmi) for gpu in discovered.gpus} == {peers}
    assert [problem for problem in discovered.problems if "memory of" not in str(problem.used)] == []


@needs_captures
def test_xgmi_connects_exactly_the_gpus_of_a_hive() -> None:
    """On every captured machine, each GPU reaches exactly the others with its hive id."""
    for name in CAPTURES:
        tree = captured(name)
        gpus = GpuScan(amd(*whole_gpus(tree)), tree).gpus
        for gpu in gpus:
            hive = {member.address for member in gpus if gpu.hive and member.hive == gpu.hive} - {gpu.address}
            assert {peer.address for peer in gpu.xgmi} == hive


@needs_captures
def test_memory_of_partitions_adds_up() -> None:
    """Each of the 4 partitions of an MI308 has a quarter of its 192 GB."""
    tree = captured("topology-parsing-mi308")
    for gpu in GpuScan(amd(*whole_gpus(tree)), tree).gpus:
        assert gpu.memory == sum(part.memory or 0 for part in gpu.partitions)
        assert 190 << 30 < (gpu.memory or 0) <= 192 << 30


@needs_captures
def test_a_copy_of_a_node_is_noticed() -> None:
    """One capture shows a machine with one GPU whose node was copied; the copy has the same location."""
    tree = captured("topology-parsing")
    discovered = GpuScan(amd(*whole_gpus(tree)), tree)
    assert len(discovered.gpus) == 1
    assert discovered.gpus[0].memory == 17163091968
    assert discovered.said("describes another GPU")


@needs_captures
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(st.data())
def test_damage_invents_nothing(data: st.DataObject) -> None:
    """Whatever happens to the files, the GPUs are the same, no exception is raised, and losses are reported."""
    tree = {**captured("topo-mi210-xgmi-pcie"), **amd_tree("0000:63:00.0")}
    functions = tuple(amd(*whole_gpus(tree)))
    damages = data.draw(st.dictionaries(st.sampled_from(sorted(tree)), DAMAGES, min_size=1, max_size=5))
    machine, before = (damaged_machine(tree, functions, damage) for damage in (damages, {}))
    assert [gpu.address for gpu in machine.gpus] == [function.address for function in functions]
    lost = [
        field
        for gpu, undamaged in zip(machine.gpus, before.gpus, strict=True)
        for field in ("memory", "compute_units", "uuid", "hive")
        if getattr(gpu, field) is None and getattr(undamaged, field) is not None
    ]
    assert not lost or set(machine.problems) - set(before.problems)


def damaged_machine(tree: Contents, functions: tuple[Any, ...], damages: dict[str, Damage]) -> Machine:
    read = Reader(Damaged(MemoryFiles(tree.items()), damages))
    machine = find_gpus(read, Machine(pci=functions, zones=zones("0-3")), lambda: pytest.fail("asked"))
    return machine._replace(problems=tuple(read.problems))


def test_the_directory_is_that_of_the_pci_function() -> None:
    """Attributes are read where PCI lists the GPU, whatever its card number is."""
    assert GpuScan(amd(ADDRESS), amd_tree(ADDRESS)).sources[f"gpus.{ADDRESS}.memory"].file == (
        f"/{DEVICES}/{ADDRESS}/mem_info_vram_total"
    )


@pytest.mark.skipif(not (SNAPSHOTS / "prometheus").exists(), reason=ABSENT)
def test_a_real_directory_of_amdgpu() -> None:
    """A captured workstation GPU has 8 GB, no product name and no partitions."""
    files = open_root(str(SNAPSHOTS / "prometheus" / "procfs-fixtures.tar.gz"))
    source, address = "sys/class/drm/card0/device", "0000:09:00.0"
    tree: Contents = {}
    for name in files.names(source):
        try:
            tree[f"{DEVICES}/{address}/{name}"] = files.read(f"{source}/{name}")
        except OSError:
            continue
    discovered = GpuScan([pci(address, "1002", "0300", device="687f", driver="amdgpu")], tree)
    gpu = discovered.gpus[0]
    assert (gpu.memory, gpu.uuid, gpu.model, gpu.partition) == (8573157376, "GPU-0123456789abcdef", None, None)
    assert gpu.vbios == "115-D050PIL-100"
    assert discovered.problems == []
