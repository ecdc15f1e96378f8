"""Every device is an instance, with NFD's attributes and additional ones."""

from __future__ import annotations

from support.machines import gpu_server
from zonewise.machine.model.host import BlockDevice
from zonewise.machine.model.machine import Machine
from zonewise.machine.model.network import Nic, Port, RdmaDevice
from zonewise.machine.model.pci import PciFunction, PciLink, Sriov
from zonewise.objects.device_features import device_features

ADDRESS = "0000:3b:00.0"


def nic(name: str, **more: object) -> Nic:
    return Nic(name, ADDRESS, 1, "ice", 100000, "up", None, "Ethernet", Sriov(256, 4), None)._replace(**more)


def instances(machine: Machine, feature: str, *, with_pods: bool = False) -> tuple[dict[str, str], ...]:
    return device_features(machine, with_pods=with_pods)[feature]


def test_every_gpu() -> None:
    """Eight GPUs of one model are eight instances, each with its address, so that a rule can count them."""
    gpus = [each for each in instances(gpu_server(), "pci.device") if each["vendor"] == "10de"]
    assert len(gpus) == len({each["address"] for each in gpus}) == 8
    assert {each["numa_node"] for each in gpus} == {"0", "1", "2", "3"}


def test_a_function() -> None:
    """The names are the kernel's attributes, as in NFD; the current speed is omitted."""
    function = PciFunction(
        ADDRESS, "0200", "020000", "8086", "1592", "8086", "0001", "ice", 1, "numa_node", None, None, "pci0000:3a",
        PciLink(8.0, 16, 16.0, 16), 7, Sriov(256, 4), iommu_type="DMA-FQ", iommu_version="5:0",
    )  # fmt: skip
    assert instances(Machine(pci=(function,)), "pci.device") == (
        {
            "address": ADDRESS,
            "class": "0200",
            "device": "1592",
            "driver": "ice",
            "iommu/intel-iommu/version": "5:0",
            "iommu_group/type": "DMA-FQ",
            "link_width": "16",
            "max_link_speed": "16",
            "max_link_width": "16",
            "numa_node": "1",
            "sriov_totalvfs": "256",
            "subsystem_device": "0001",
            "subsystem_vendor": "8086",
            "vendor": "8086",
        },
    )


def test_a_nic() -> None:
    """It has NFD's attributes and the driver, the firmware of its RDMA device, the address and the zone."""
    rdma = RdmaDevice("irdma0", ADDRESS, 1, None, "1.70", None, ())
    machine = Machine(nics=(nic("ens1f0", rdma="irdma0", mtu=1500, printed_speed=100000),), infiniband=(rdma,))
    assert instances(machine, "network.device") == (
        {
            "address": ADDRESS,
            "driver": "ice",
            "firmware": "1.70",
            "link_layer": "Ethernet",
            "mtu": "1500",
            "name": "ens1f0",
            "numa_node": "1",
            "operstate": "up",
            "rdma": "irdma0",
            "speed": "100000",
            "sriov_numvfs": "4",
            "sriov_totalvfs": "256",
        },
    )


def test_rdma_devices() -> None:
    """Devices of every vendor and software devices have driver and firmware; those of VFs are listed on request."""
    function = PciFunction(ADDRESS, "0200", "020000", "8086", "1592", "8086", "0001", "ice", 1, "numa_node", None, None,
                           "pci0000:3a", PciLink(8.0, 16, 16.0, 16), 7, None)  # fmt: skip
    virtual = function._replace(address="0000:3b:01.0", physical_function=ADDRESS)
    port = Port(1, "ACTIVE", "LinkUp", 100.0, "Ethernet", None, None, (), {}, {})
    machine = Machine(
        pci=(function, virtual),
        infiniband=(
            RdmaDevice("rxe0", None, None, None, None, None, (port,), software=True),
            RdmaDevice("irdma1", virtual.address, 1, None, "1.70", None, (port,)),
            RdmaDevice("irdma0", ADDRESS, 1, None, "1.70", None, (port, port._replace(number=2))),
        ),
    )
    irdma = {
        "address": ADDRESS, "driver": "ice", "firmware": "1.70", "link_layer": "Ethernet", "name": "irdma0",
        "numa_node": "1", "software": "false",
    }  # fmt: skip
    rxe = {"link_layer": "Ethernet", "name": "rxe0", "software": "true"}
    assert instances(machine, "rdma.device") == (irdma, rxe)
    with_pods = instances(machine, "rdma.device", with_pods=True)
    assert with_pods == (irdma, {**irdma, "name": "irdma1", "address": virtual.address}, rxe)


def test_a_speed_unknown_to_the_driver() -> None:
    """The speed is -1, as the kernel prints it, and absent if the link is down."""
    machine = Machine(nics=(nic("eth1", printed_speed=None), nic("eth0", speed_mbps=None, printed_speed=-1)))
    assert [each.get("speed") for each in instances(machine, "network.device")] == ["-1", None]


def test_interfaces_of_pods() -> None:
    """Veth pairs and virtual functions are listed on request; the loopback device always is."""
    virtual = nic("lo", address=None, driver=None, virtual=True, kind="loopback")
    nics = (virtual, virtual._replace(name="veth7", kind="veth"), nic("eth0"), nic("eth0v0", physical_function=ADDRESS))
    for with_pods, names in ((False, (["eth0"], ["lo"])), (True, (["eth0", "eth0v0"], ["lo", "veth7"]))):
        features = device_features(Machine(nics=nics), with_pods=with_pods)
        shown = tuple([each["name"] for each in features[name]] for name in ("network.device", "network.virtual"))
        assert shown == names


def test_a_nic_without_a_netdev() -> None:
    """As in NFD, it is a PCI function but not a network device."""
    assert instances(Machine(nics=(nic(ADDRESS, presence="other namespace"),)), "network.device") == ()


def test_a_block_device() -> None:
    """The attributes are those of the queue, as in NFD, and the location."""
    drive = BlockDevice("nvme0n1", ADDRESS, 0, 1 << 40, False, None, "nvme", False, "host-managed", 96)
    assert instances(Machine(block_devices=(drive,)), "storage.block") == (
        {
            "address": ADDRESS,
            "dax": "0",
            "name": "nvme0n1",
            "nr_zones": "96",
            "numa_node": "0",
            "rotational": "0",
            "zoned": "host-managed",
        },
    )
