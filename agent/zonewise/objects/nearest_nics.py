"""The nearest NICs of each GPU, from the relations in Machine.links."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise.machine.physical_nics import physical_netdevs, physical_rdma

if TYPE_CHECKING:
    from zonewise.machine.model.machine import Machine

CLOSEST_FIRST = ("SAME", "PIX", "PXB", "PHB", "NODE", "SYS")
"""The relations of PCI devices, as `nvidia-smi topo -m` names them. GPUDirect RDMA runs at full rate up to PXB."""


class NearestNics(NamedTuple):
    """The NICs nearest to a GPU; several if they are equally near."""

    relation: str
    nics: tuple[str, ...]
    """PCI addresses, ascending."""


def nearest_nics(machine: Machine) -> dict[str, NearestNics]:
    """Return the nearest physical NICs of each GPU by its PCI address; only RDMA NICs if there are any.

    A GPU is absent if its relation to every NIC is unknown.
    """
    gpus = {gpu.address for gpu in machine.gpus}
    nics = _candidates(machine)
    nics_by_gpu: dict[str, dict[str, set[str]]] = {}
    for link in machine.links:
        for gpu, nic in ((link.a, link.b), (link.b, link.a)):
            if gpu in gpus and nic in nics and link.relation in CLOSEST_FIRST:
                nics_by_gpu.setdefault(gpu, {}).setdefault(link.relation, set()).add(nic)
    best = {gpu: min(relations, key=CLOSEST_FIRST.index) for gpu, relations in nics_by_gpu.items()}
    return {gpu: NearestNics(relation, tuple(sorted(nics_by_gpu[gpu][relation]))) for gpu, relation in best.items()}


def _candidates(machine: Machine) -> set[str]:
    rdma = {device.address for device in physical_rdma(machine) if device.address is not None}
    return rdma or physical_netdevs(machine)
