"""Requests and responses of kube-scheduler's extender protocol.

Source: staging/src/k8s.io/kube-scheduler/extender/v1/types.go. These Go types have no JSON tags, so the field names are
the keys. Pods and nodes inside are API objects. Go's nil is null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

if TYPE_CHECKING:
    from zonewise_scheduler.extender.failed_nodes import FailedNodes

MAX_EXTENDER_PRIORITY = 10
"""MaxExtenderPriority: kube-scheduler multiplies a score by ten and by the extender's weight."""

Json = dict[str, Any]


class ExtenderArgs(msgspec.Struct, rename="pascal"):
    """The request of the verbs filter and prioritize."""

    pod: Json
    nodes: NodeList | None = None
    """Whole nodes, which are sent to extenders that are not nodeCacheCapable."""
    node_names: msgspec.Raw = msgspec.Raw(b"null")
    """A list of names, unparsed: usually only one of them matters."""


class NodeList(msgspec.Struct):
    """A v1.NodeList."""

    items: list[msgspec.Raw] | None = None


class ExtenderFilterResult(msgspec.Struct, rename="pascal"):
    """The response to filter."""

    nodes: NodeList | None = None
    node_names: msgspec.Raw | list[str] | None = None
    failed_nodes: dict[str, str] | None = None
    failed_and_unresolvable_nodes: msgspec.Raw | dict[str, str] | None = None
    """Nodes on which preemption would not help either."""
    error: str = ""


class HostPriority(msgspec.Struct, rename="pascal"):
    """The score of one node, 0 to MAX_EXTENDER_PRIORITY."""

    host: str
    score: int


class ExtenderBindingArgs(msgspec.Struct, rename={"uid": "PodUID", "name": "PodName", "namespace": "PodNamespace",
                                               "node": "Node"}):  # fmt: skip
    """The request of the verb bind."""

    name: str
    namespace: str
    uid: str
    node: str


class ExtenderBindingResult(msgspec.Struct, rename="pascal"):
    """The response to bind."""

    error: str = ""


class MetaPod(msgspec.Struct, rename={"uid": "UID"}):
    """The identity of a pod."""

    uid: str


class MetaVictims(msgspec.Struct, rename={"pods": "Pods", "pdb_violations": "NumPDBViolations"}):
    """The victims of one node."""

    pods: list[MetaPod] | None = None
    pdb_violations: int = 0


class _VictimMeta(msgspec.Struct):
    uid: str


class _VictimPod(msgspec.Struct):
    metadata: _VictimMeta


class _Victims(msgspec.Struct, rename={"pods": "Pods", "pdb_violations": "NumPDBViolations"}):
    """Victims as whole pods, which are sent to extenders that are not nodeCacheCapable."""

    pods: list[_VictimPod] | None = None
    pdb_violations: int = 0


class ExtenderPreemptionArgs(msgspec.Struct, rename="pascal"):
    """The request of the verb preempt."""

    pod: Json
    node_name_to_victims: dict[str, _Victims] | None = None
    node_name_to_meta_victims: dict[str, MetaVictims] | None = None

    def victims(self) -> dict[str, ProposedVictims]:
        """Return the victims that kube-scheduler proposes, by node."""
        proposed = {
            node: ProposedVictims(tuple(pod.uid for pod in victims.pods or ()), victims.pdb_violations)
            for node, victims in (self.node_name_to_meta_victims or {}).items()
        }
        for node, victims in (self.node_name_to_victims or {}).items():
            uids = tuple(pod.metadata.uid for pod in victims.pods or ())
            proposed.setdefault(node, ProposedVictims(uids, victims.pdb_violations))
        return proposed


class ProposedVictims(NamedTuple):
    """The victims that kube-scheduler proposes for one node."""

    uids: tuple[str, ...]
    violations: int
    """Number of violations of PodDisruptionBudgets."""


class ExtenderPreemptionResult(msgspec.Struct, rename="pascal"):
    """The response to preempt."""

    node_name_to_meta_victims: dict[str, MetaVictims]


class _Meta(msgspec.Struct):
    name: str


class _Named(msgspec.Struct):
    metadata: _Meta


MAX_NAMES = 1_000_000
"""Maximum number of commas in a list of names: a decoded name takes about 100 bytes."""
_MAX_SEARCHES = 4
"""Maximum number of searches in the unparsed list before all names are parsed; parsing takes about as long as these
searches."""
_NAMED = msgspec.json.Decoder(_Named)
_NAMES = msgspec.json.Decoder(list[str])


class RequestError(ValueError):
    """An invalid request; the message names the field."""


class CandidateNodes:
    """The candidate nodes of a request, parsed only as far as needed."""

    def __init__(self, arguments: ExtenderArgs) -> None:
        """Take a request. Raises RequestError if it has neither nodes nor names."""
        self._raw = bytes(arguments.node_names)
        self._nodes = arguments.nodes.items or [] if arguments.nodes is not None else None
        self._names: list[str] | None = None
        self._name_set: frozenset[str] | None = None
        self._searches = 0
        self._searchable = self._nodes is None and b"\\" not in self._raw
        """Whether names appear verbatim in the text. JSON may write any character as an escape (RFC 8259 section 7)."""
        if self._nodes is None and self._raw == b"null":
            raise RequestError("neither Nodes nor NodeNames: the request has no candidates")
        if self._nodes is None and not self._raw.startswith(b"["):
            raise RequestError(f"NodeNames: not a list: {self._raw[:80].decode()}")
        if self._raw.count(b",") > MAX_NAMES:
            raise RequestError(f"NodeNames: more than {MAX_NAMES} names")

    @property
    def names(self) -> list[str]:
        """Return the names in the order of the request. Raises RequestError."""
        if self._names is None:
            self._names = _read_names(self._raw) if self._nodes is None else _node_names(self._nodes)
        return self._names

    @property
    def name_set(self) -> frozenset[str]:
        """Return the names as a set. Raises RequestError."""
        if self._name_set is None:
            self._name_set = frozenset(self.names)
        return self._name_set

    def __contains__(self, name: str) -> bool:
        """Return whether a node is a candidate. Raises RequestError."""
        if self._names is None and self._searchable and self._searches < _MAX_SEARCHES:
            # node names are DNS subdomains, so none needs an escape or contains a quote
            self._searches += 1
            return f'"{name}"'.encode() in self._raw
        return name in self.name_set

    def pass_all(self) -> ExtenderFilterResult:
        """Return the result that passes every candidate."""
        if self._nodes is None:
            return ExtenderFilterResult(node_names=msgspec.Raw(self._raw), failed_nodes={})
        return ExtenderFilterResult(nodes=NodeList(self._nodes), failed_nodes={})

    def pass_nodes(self, passing: list[str], failed: FailedNodes, nominated: str = "") -> ExtenderFilterResult:
        """Return the result that passes some candidates, with reasons for the failed ones.

        `nominated`: a failed node that will admit the pod once its victims have ended. While they end, kube-scheduler
        preempts no others and keeps the nomination (PodEligibleToPreemptOthers of default_preemption.go). Its own
        search finds no victims on a node that its own filters pass, so it must leave out all other failed nodes.
        """
        result = ExtenderFilterResult(failed_and_unresolvable_nodes=failed.encoded)
        if nominated in failed:
            others = {name: reason for name, reason in failed.items() if name != nominated}
            result = ExtenderFilterResult(
                failed_nodes={nominated: failed[nominated]}, failed_and_unresolvable_nodes=others
            )
        if self._nodes is None:
            result.node_names = passing
        else:
            passing_names = set(passing)
            pairs = zip(self.names, self._nodes, strict=True)
            result.nodes = NodeList([node for name, node in pairs if name in passing_names])
        return result


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
