"""dra_manager_state: the ResourceClaims that the kubelet has prepared (pkg/kubelet/cm/dra/state/checkpoint.go)."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

from zonewise.kubelet.checkpoint import CheckpointReader, ParsedCheckpoint
from zonewise.kubelet.types import ClaimedDevice, ClaimInfoState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def parse_dra_manager_state(content: bytes, path: str) -> ParsedCheckpoint[tuple[ClaimInfoState, ...]]:
    """Return the claims in the file, in either version.

    Since 1.32 the claims are JSON inside a text, with the CRC-32 of that text. Before, they were in the file itself,
    under "entries", and before 1.31 without the names of devices.
    """
    file = CheckpointReader(path)
    document = file.document(content)
    if not document:
        return file.parsed(None)
    if "Data" not in document:
        if "checksum" not in document:
            file.problem("Data", None, "is missing")
            return file.parsed(None)
        return file.parsed(tuple(_claims(file, "entries", document.get("entries"))))
    data, checksum = document["Data"], document.get("Checksum")
    if not isinstance(data, str) or zlib.crc32(data.encode(errors="replace")) != checksum:
        file.problem("Checksum", checksum, "is not that of Data")
        return file.parsed(None)
    inner = file.document(data)
    if not inner:
        return file.parsed(None)
    field = "ClaimInfoStateList"
    return file.parsed(tuple(_claims(file, f"Data.{field}", inner.get(field))))


def _claims(file: CheckpointReader, field: str, value: object) -> Iterator[ClaimInfoState]:
    for claim_field, entry in file.items(field, value):
        content: Mapping[str, Any] = dict(file.entries(claim_field, entry))
        namespace = file.text(f"{claim_field}.Namespace", content.get("Namespace"))
        name = file.text(f"{claim_field}.ClaimName", content.get("ClaimName"))
        if namespace is None or name is None:
            continue
        pods = sorted(uid for uid, _ in file.entries(f"{claim_field}.PodUIDs", content.get("PodUIDs")))
        drivers = f"{claim_field}.DriverState"
        devices = tuple(
            device
            for driver, state in file.entries(drivers, content.get("DriverState"))
            for device in _devices(file, f"{drivers}.{driver}", state, driver, f"{namespace}/{name}")
        )
        yield ClaimInfoState(namespace, name, tuple(pods), tuple(sorted(devices, key=_device_order)))


def _devices(file: CheckpointReader, field: str, value: object, driver: str, claim: str) -> Iterator[ClaimedDevice]:
    state: Mapping[str, Any] = dict(file.entries(field, value))
    for device_field, entry in file.items(f"{field}.Devices", state.get("Devices")):
        content: Mapping[str, Any] = dict(file.entries(device_field, entry))
        pool = file.text(f"{device_field}.PoolName", content.get("PoolName"))
        device = file.text(f"{device_field}.DeviceName", content.get("DeviceName"))
        share = content.get("ShareID")
        if share is not None:
            share = file.text(f"{device_field}.ShareID", share)
        if pool is not None and device is not None:
            yield ClaimedDevice(driver, pool, device, claim, share)


def _device_order(device: ClaimedDevice) -> tuple[str, str, str, str]:
    return device.driver, device.pool, device.device, device.share or ""
