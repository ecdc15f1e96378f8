"""Facts of Intel GPUs from the i915 and xe drivers.

An integrated GPU has no memory of its own. An older kernel does not report the memory size of a discrete GPU. In
both cases `memory` is unknown.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zonewise.machine.collectors.gpu.drm import drm_numbers, module_version, natural_number
from zonewise.machine.collectors.pci.functions import DEVICES

if TYPE_CHECKING:
    from zonewise.machine.model.gpu import Gpu
    from zonewise.machine.reader import Reader

_DRIVERS = ("i915", "xe")
_TILE = re.compile(r"tile\d{1,2}")  # drivers/gpu/drm/xe/xe_tile_sysfs.c
_GT = re.compile(r"gt\d{1,2}")  # drivers/gpu/drm/i915/gt/intel_gt_sysfs.c


def enrich_intel(read: Reader, gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """Return the GPUs with the facts that only Intel's driver reports."""
    used = {gpu.driver for gpu in gpus if gpu.vendor == "intel"}
    versions = {driver: module_version(read, driver) for driver in _DRIVERS if driver in used}
    return tuple(
        _enriched(read, gpu, versions.get(gpu.driver)) if gpu.vendor == "intel" and gpu.driver in versions else gpu
        for gpu in gpus
    )


def _enriched(read: Reader, gpu: Gpu, version: str | None) -> Gpu:
    path, fact = f"{DEVICES}/{gpu.address}", f"gpus.{gpu.address}"
    minor, number = drm_numbers(read, path, fact)
    gpu = gpu._replace(minor=minor, number=number, driver_version=version)
    return _enrich_xe(read, gpu, path, fact) if gpu.driver == "xe" else _enrich_i915(read, gpu, path, fact)


def _enrich_i915(read: Reader, gpu: Gpu, path: str, fact: str) -> Gpu:
    if gpu.number is None:
        return gpu
    card = f"{path}/drm/card{gpu.number}"
    memory = natural_number(read, f"{card}/lmem_total_bytes", fact=f"{fact}.memory", rule="bytes of local memory")
    if not memory:
        return gpu
    # each GT of a discrete GPU is a tile; the second GT of an integrated GPU (Meteor Lake) is for media
    tiles = sum(1 for name in read.names(f"{card}/gt") if _GT.fullmatch(name))
    read.source(f"{fact}.tiles", f"{card}/gt", tiles, "one for each directory gt0, gt1, ...")
    return gpu._replace(memory=memory, tiles=tiles or None)


def _enrich_xe(read: Reader, gpu: Gpu, path: str, fact: str) -> Gpu:
    tiles = [name for name in read.names(path) if _TILE.fullmatch(name)]
    sizes = [natural_number(read, f"{path}/{tile}/physical_vram_size_bytes") for tile in tiles]
    known = [size for size in sizes if size]
    memory = sum(known) if len(known) == len(tiles) else None
    read.source(f"{fact}.tiles", path, len(tiles), "one for each directory tile0, tile1, ...")
    read.source(f"{fact}.memory", f"{path}/tile0/physical_vram_size_bytes", memory, "bytes of all tiles together")
    return gpu._replace(memory=memory or None, tiles=len(tiles) or None)
