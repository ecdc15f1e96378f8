"""The node and its available resources as Prometheus metrics, computed from the last snapshot at each scrape.

Units are base units: bytes, seconds, ratios. An unknown fact has no sample. If node_exporter measures a fact too, the
metric has node_exporter's name and labels (collectors infiniband and pcidevice), so that dashboards and alerts work
with both.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client.core import Metric

    from zonewise.daemon.status import Snapshot
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.model.network import Port, RdmaDevice

Sample = tuple[tuple[str, ...], float | None]

_ADDRESS = ("segment", "bus", "device", "function")
_LINK_ENDS = ("02", "03", "12", "0108", "0b40")
"""Classes of devices whose link matters for jobs: network, display, accelerators, NVMe, co-processors."""

PORT_STATES = {"NOP": 0, "DOWN": 1, "INIT": 2, "ARMED": 3, "ACTIVE": 4, "ACTIVE_DEFER": 5}
"""Values of enum ib_port_state in include/rdma/ib_verbs.h."""
PHYSICAL_STATES = {
    "NOP": 0, "Sleep": 1, "Polling": 2, "Disabled": 3, "Training": 4, "LinkUp": 5, "LinkErrorRecovery": 6, "Phy Test": 7
}  # fmt: skip
"""Values of enum ib_port_phys_state, with the names of drivers/infiniband/core/sysfs.c phys_state_show()."""


class NodeMetrics:
    """A collector of prometheus_client, which works only when scraped."""

    def __init__(self, snapshot: Callable[[], Snapshot]) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        """Return the metrics of the last snapshot."""
        snapshot = self._snapshot()
        yield from _zones(snapshot)
        yield from _hardware(snapshot.machine)
        yield from _infiniband(snapshot.machine)
        yield from _links(snapshot.machine)
        yield _gauge("zonewise_problems", "Problems in the files that discovery read, by source.", ("source",), [
            (("machine",), len(snapshot.machine.problems)), (("report",), len(snapshot.problems)),
        ])  # fmt: skip


def _zones(snapshot: Snapshot) -> Iterator[Metric]:
    if snapshot.usage is None:
        return
    amounts = [
        ((str(zone.zone), resource), amount)
        for zone in snapshot.usage.zones
        for resource, amount in zone.amounts.items()
    ]
    amounts += [(("", resource), amount) for resource, amount in snapshot.usage.unzoned.items()]
    for field, text in (
        ("capacity", "Resources of the hardware"),
        ("allocatable", "Resources that the kubelet may allocate to pods exclusively"),
        ("available", "Resources that the kubelet would still allocate to the next pod"),
    ):
        samples = [(labels, getattr(amount, field)) for labels, amount in amounts]
        help_text = (
            f"{text}: CPUs, bytes of memory and hugepages, number of devices. The label zone is empty if the kubelet "
            "knows no zone."
        )
        yield _gauge(f"zonewise_zone_{field}", help_text, ("zone", "resource"), samples)


def _hardware(machine: Machine) -> Iterator[Metric]:
    states = [(("online",), len(machine.cpus.online)), (("offline",), len(machine.cpus.offline))]
    yield _gauge("zonewise_cpus", "Hardware threads, by state.", ("state",), states)
    yield _gauge("zonewise_cores", "Processor cores.", (), [((), len(machine.cores))])
    yield _gauge("zonewise_packages", "Processor packages.", (), [((), len(machine.packages))])
    kinds = {zone.kind for zone in machine.zones}
    counts = [((kind,), sum(zone.kind == kind for zone in machine.zones)) for kind in sorted(kinds)]
    yield _gauge(
        "zonewise_zones",
        "NUMA nodes, by kind: with CPUs, with memory only, or with the memory of a GPU.",
        ("kind",),
        counts,
    )
    gpus = [
        ((gpu.address or "", gpu.vendor or "", gpu.model or "", gpu.uuid or "", _name(gpu.zone), gpu.state or ""), 1)
        for gpu in machine.gpus
    ]
    yield _gauge(
        "zonewise_gpu_info",
        "1 for each GPU, with its properties as labels.",
        ("address", "vendor", "model", "uuid", "zone", "state"),
        gpus,
    )
    nics = [
        ((nic.name, nic.address or "", nic.driver or "", nic.link_layer or "", nic.rdma or "", _name(nic.zone)), 1)
        for nic in machine.nics
        if nic.address is not None and nic.physical_function is None
    ]
    labels = ("device", "address", "driver", "link_layer", "rdma", "zone")
    yield _gauge(
        "zonewise_nic_info", "1 for each physical network device, with its properties as labels.", labels, nics
    )


def _infiniband(machine: Machine) -> Iterator[Metric]:
    ports = [((device.name, str(port.number)), port) for device in machine.infiniband for port in device.ports]

    def port_gauge(name: str, text: str, value: Callable[[Port], float | None]) -> Metric:
        return _gauge(f"node_infiniband_{name}", text, ("device", "port"), [(at, value(port)) for at, port in ports])

    info = [(_device_labels(device), 1) for device in machine.infiniband]
    labels = ("device", "board_id", "firmware_version", "hca_type")
    yield _gauge("node_infiniband_info", "1 for each RDMA device, with its properties as labels.", labels, info)
    yield port_gauge(
        "state_id",
        "State of the port: 1 down, 2 init, 3 armed, 4 active.",
        lambda port: PORT_STATES.get(port.state or ""),
    )
    yield port_gauge(
        "physical_state_id", "Physical state of the port: 2 polling, 3 disabled, 5 link up, 6 error recovery.",
        lambda port: PHYSICAL_STATES.get(port.physical_state or ""),
    )  # fmt: skip
    yield port_gauge(
        "rate_bytes_per_second", "Rate of the port's link.",
        lambda port: None if port.rate_gbps is None else port.rate_gbps * 1e9 / 8,
    )  # fmt: skip


def _device_labels(device: RdmaDevice) -> tuple[str, ...]:
    return device.name, device.board or "", device.firmware or "", device.hca_type or ""


def _links(machine: Machine) -> Iterator[Metric]:
    ends = [
        (tuple(re.split("[:.]", function.address)), function.link)
        for function in machine.pci
        if function.link is not None and (function.pci_class or "").startswith(_LINK_ENDS)
    ]
    for when, text in (("current", "Current"), ("max", "Maximum")):
        prefix = "" if when == "current" else "max_"
        speeds = [(at, _per_second(getattr(link, f"{prefix}speed_gts"))) for at, link in ends]
        widths = [(at, getattr(link, f"{prefix}width")) for at, link in ends]
        yield _gauge(
            f"node_pcidevice_{when}_link_transfers_per_second", f"{text} speed of the PCIe link.", _ADDRESS, speeds
        )
        yield _gauge(f"node_pcidevice_{when}_link_width", f"{text} number of lanes of the PCIe link.", _ADDRESS, widths)


def _per_second(gts: float | None) -> float | None:
    return None if gts is None else gts * 1e9


def _name(zone: int | None) -> str:
    return "" if zone is None else str(zone)


def _gauge(name: str, text: str, labels: tuple[str, ...], samples: Iterable[Sample]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for values, number in samples:
        if number is not None:
            family.add_metric(values, number)
    return family
