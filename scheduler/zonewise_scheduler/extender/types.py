"""Requests and responses of kube-scheduler's extender protocol.

Source: staging/src/k8s.io/kube-scheduler/extender/v1/types.go. These Go types have no JSON tags, so the names of the
fields are the keys. Pods and nodes inside are as the API has them. A nil of Go is null.
"""

from __future__ import annotations

from typing import Any

import msgspec

MAX_EXTENDER_PRIORITY = 10
"""MaxExtenderPriority: kube-scheduler multiplies by ten and by the extender's weight."""

Json = dict[str, Any]


class ExtenderArgs(msgspec.Struct, rename="pascal"):
    """ExtenderArgs, of filter and of prioritize."""

    pod: Json
    nodes: NodeList | None = None
    """Whole nodes, to extenders that are not nodeCacheCapable."""
    node_names: msgspec.Raw = msgspec.Raw(b"null")
    """A list of names, unparsed: usually only one of them matters."""


class NodeList(msgspec.Struct):
    """A v1.NodeList."""

    items: list[msgspec.Raw] | None = None


class ExtenderFilterResult(msgspec.Struct, rename="pascal"):
    """ExtenderFilterResult."""

    nodes: NodeList | None = None
    node_names: msgspec.Raw | list[str] | None = None
    failed_nodes: dict[str, str] | None = None
    failed_and_unresolvable_nodes: dict[str, str] | None = None
    """Those on which preemption would not help either."""
    error: str = ""


class HostPriority(msgspec.Struct, rename="pascal"):
    """One node's score, 0 to MOST_SCORE."""

    host: str
    score: int


class ExtenderBindingArgs(msgspec.Struct, rename={"uid": "PodUID", "name": "PodName", "namespace": "PodNamespace",
                                               "node": "Node"}):  # fmt: skip
    """ExtenderBindingArgs."""

    name: str
    namespace: str
    uid: str
    node: str


class ExtenderBindingResult(msgspec.Struct, rename="pascal"):
    """ExtenderBindingResult."""

    error: str = ""


class _Meta(msgspec.Struct):
    name: str


class _Named(msgspec.Struct):
    metadata: _Meta


_MAX_SEARCHES = 4
"""Searches in the unread list before all names are read; reading takes about as long as these searches."""
_NAMED = msgspec.json.Decoder(_Named)
_NAMES = msgspec.json.Decoder(list[str])


class RequestError(ValueError):
    """An invalid request; the message names the field."""


class CandidateNodes:
    """The candidate nodes of a request, parsed only as far as needed."""

    def __init__(self, arguments: ExtenderArgs) -> None:
        """Take a request. Raises RequestError where it has neither nodes nor names."""
        self._raw = bytes(arguments.node_names)
        self._nodes = arguments.nodes.items or [] if arguments.nodes is not None else None
        self._names: list[str] | None = None
        self._name_set: frozenset[str] = frozenset()
        self._searches = 0
        if self._nodes is None and self._raw == b"null":
            raise RequestError("neither Nodes nor NodeNames: the request has no candidates")
        if self._nodes is None and not self._raw.startswith(b"["):
            raise RequestError(f"NodeNames: not a list: {self._raw[:80].decode()}")

    @property
    def names(self) -> list[str]:
        """Return the names in the order of the request. Raises RequestError."""
        if self._names is None:
            self._names = _read_names(self._raw) if self._nodes is None else _node_names(self._nodes)
        return self._names

    def __contains__(self, name: str) -> bool:
        """Tell whether a node is a candidate. Raises RequestError."""
        if self._names is None and self._nodes is None and self._searches < _MAX_SEARCHES:
            # names of nodes are DNS subdomains, so none needs an escape or contains a quote
            self._searches += 1
            return f'"{name}"'.encode() in self._raw
        self._name_set = self._name_set or frozenset(self.names)
        return name in self._name_set

    def pass_all(self) -> ExtenderFilterResult:
        """Return the result that passes every candidate."""
        if self._nodes is None:
            return ExtenderFilterResult(node_names=msgspec.Raw(self._raw), failed_nodes={})
        return ExtenderFilterResult(nodes=NodeList(self._nodes), failed_nodes={})

    def pass_nodes(self, passing: list[str], failed: dict[str, str]) -> ExtenderFilterResult:
        """Return the result that passes some candidates, with the reasons of the failed ones."""
        if self._nodes is None:
            return ExtenderFilterResult(node_names=passing, failed_and_unresolvable_nodes=failed)
        passing_names = set(passing)
        nodes = [node for name, node in zip(self.names, self._nodes, strict=True) if name in passing_names]
        return ExtenderFilterResult(nodes=NodeList(nodes), failed_and_unresolvable_nodes=failed)


def _read_names(raw: bytes) -> list[str]:
    try:
        return _NAMES.decode(raw)
    except msgspec.DecodeError as error:
        raise RequestError(f"NodeNames: {error}") from error


def _node_names(nodes: list[msgspec.Raw]) -> list[str]:
    names: list[str] = []
    for index, node in enumerate(nodes):
        try:
            names.append(_NAMED.decode(node).metadata.name)
        except msgspec.DecodeError as error:
            raise RequestError(f"Nodes.items[{index}]: {error}") from error
    return names
