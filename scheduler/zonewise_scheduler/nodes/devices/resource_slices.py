"""ResourceSlices: the devices that drivers offer on nodes, reduced to what bounds their number (KEP-4381).

Source: k8s.io/api/resource/v1 ResourceSliceSpec.
"""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from zonewise_common.k8s.nodeaffinity import NAME_FIELD, read_selector_term

if TYPE_CHECKING:
    from collections.abc import Mapping

_COMPRESSION = 1
"""The devices of a node differ in little, so that the fastest level saves nine tenths."""


class _Counter(msgspec.Struct):
    value: str | int


class CounterSet(msgspec.Struct, rename="camel", omit_defaults=True):
    """The counters of a set that devices share, or that one device takes from a set (KEP-4815)."""

    name: str = ""
    """Name of the set, where the set is declared."""
    counter_set: str = ""
    """Name of the set, where a device takes from it."""
    counters: dict[str, _Counter] = {}


class _Taint(msgspec.Struct, omit_defaults=True):
    effect: str = ""


class UsableNodes(msgspec.Struct, rename="camel", omit_defaults=True):
    """The nodes that can use a slice or a device."""

    node_name: str = ""
    all_nodes: bool = False
    node_selector: Any = None

    def selects(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether a node is selected (incubating/pools_incubating.go NodeMatches). Raises FieldError."""
        if self.node_name or self.all_nodes or self.node_selector is None:
            return self.all_nodes if not self.node_name else self.node_name == name
        terms = self.node_selector.get("nodeSelectorTerms") or ()
        read = (read_selector_term(term, "spec.nodeSelector.nodeSelectorTerms.") for term in terms)
        return any(
            all(each.matches(labels.get(each.key)) for each in term.match_expressions)
            and all(each.matches(name if each.key == NAME_FIELD else None) for each in term.match_fields)
            for term in read
            if term is not None
        )


class Device(UsableNodes, kw_only=True):
    """A device of a slice. It has a node selection only if each device of the slice has its own."""

    name: str = ""
    attributes: dict[str, dict[str, Any]] = {}
    """Values by name and type."""
    consumes_counters: list[CounterSet] = []
    taints: list[_Taint] = []
    allow_multiple_allocations: bool = False

    @property
    def is_tainted(self) -> bool:
        """Return whether only requests that tolerate one of its taints get it."""
        return any(taint.effect in {"NoSchedule", "NoExecute"} for taint in self.taints)


class SliceContent(UsableNodes, kw_only=True):
    """The devices of a slice, the nodes that can use them, and the counters that they share."""

    per_device_node_selection: bool = False
    devices: list[Device] = []
    shared_counters: list[CounterSet] = []


class _Pool(msgspec.Struct):
    name: str
    generation: int = 0


class _Spec(SliceContent, kw_only=True):
    driver: str
    pool: _Pool


class _SliceMetadata(msgspec.Struct):
    name: str


class _Slice(msgspec.Struct):
    metadata: _SliceMetadata
    spec: _Spec


class ResourceSlice(NamedTuple):
    """A ResourceSlice. There may be one for each node and driver, so its content is compressed."""

    name: str
    driver: str
    pool: str
    generation: int
    nodes: frozenset[str] | None
    """The nodes that can use its devices; None: they are not selected by name."""
    has_counters: bool
    compressed: bytes

    @property
    def content(self) -> SliceContent:
        """Return the content; read-only."""
        return _content(self.compressed)


_SLICE = msgspec.json.Decoder(_Slice)
_CONTENT = msgspec.msgpack.Decoder(SliceContent)


@lru_cache(1 << 10)
def _content(compressed: bytes) -> SliceContent:
    return _CONTENT.decode(zlib.decompress(compressed))


def decode_slice(raw: msgspec.Raw | bytes) -> ResourceSlice:
    """Decode a resource.k8s.io/v1 ResourceSlice. Raises msgspec.DecodeError."""
    decoded = _SLICE.decode(raw)
    spec = decoded.spec
    content = SliceContent(
        spec.node_name,
        spec.all_nodes,
        spec.node_selector,
        per_device_node_selection=spec.per_device_node_selection,
        devices=spec.devices,
        shared_counters=spec.shared_counters,
    )
    selections = spec.devices if spec.per_device_node_selection else [spec]
    return ResourceSlice(
        decoded.metadata.name,
        spec.driver,
        spec.pool.name,
        spec.pool.generation,
        frozenset(each.node_name for each in selections) if all(each.node_name for each in selections) else None,
        bool(spec.shared_counters),
        zlib.compress(msgspec.msgpack.encode(content), _COMPRESSION),
    )
