"""Publishes labels as a NodeFeature object, from which Node Feature Discovery's master labels the Node, or directly.

The mode "auto" writes the object if the API server has that kind. It also labels the Node directly if no master has set
our labels within MASTER_TIMEOUT seconds. Labels that are set are the only proof of a working master. The master has a
lease only with leader election, and the kind may exist without any master. A master that appears later claims the
labels, which are then no longer ours (zonewise.publish.node_labels).
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from zonewise.objects.nfd_labels import PREFIX as NFD
from zonewise.objects.zonewise_labels import PREFIX as OWN
from zonewise.publish.node_feature import FeatureWriter, NotServed
from zonewise.publish.node_labels import claimed_by_nfd, node_labels_patch, owned_labels
from zonewise.publish.nrt_publisher import FIELD_MANAGER
from zonewise.rules.validation import is_label_value
from zonewise_common.kube.client import PatchKind
from zonewise_common.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid
from zonewise_common.kube.resources import NODES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zonewise.objects.features import Features
    from zonewise.publish.node_feature import FeatureClient, LabelTarget

log = logging.getLogger(__name__)

AUTO, NODE_FEATURE, NODE = "auto", "nodefeature", "node"
OFF = "off"
"""No labels are published; there is no publisher in this mode."""

MASTER_TIMEOUT = 300.0
"""Seconds that a master has to set labels. It labels a node within a second or two of a new object. After its start it
works through all nodes at about 50 a second. The Node and the object are also verified at this interval while our
labels do not change."""
_RECLAIMED = "Node Feature Discovery's master is active: delete it, or set publish.takeOver to false"
_ATTEMPTS = 4
"""Other clients write as well: the kubelet writes to its Node every few minutes, or every few seconds under
pressure."""

_POLICY_PREFIXES = tuple(f"{prefix}/" for prefix in (NFD, "nvidia.com", "amd.com", OWN))
"""The labels that manifests/base/own-node.yaml allows an agent to write. Feature files and rules may set others."""

Object = dict[str, Any]
T = TypeVar("T")


class LabelWriteResult(NamedTuple):
    """The outcome of one publish."""

    writes: tuple[str, ...] = ()
    """The objects that were written: "nodefeature", "node" or both."""
    bytes: int = 0
    """Total bytes of the requests' bodies."""
    problems: tuple[str, ...] = ()
    """Labels set by other managers, and obstacles to publishing; each is a sentence."""
    counts: tuple[tuple[str, int], ...] = ()
    """Number of the agent's labels on the API server: in the "nodefeature", and on the "node"."""


class _PathResult(NamedTuple):
    """The outcome of one of the two ways to publish."""

    bytes: int = 0
    problems: tuple[str, ...] = ()
    served: bool = False
    """Whether the API server accepted the object, so that a master can read it."""
    label_count: int = 0
    """Number of labels that are set."""


class LabelPublisher:
    """Publishes the labels of one node. Not thread-safe."""

    def __init__(
        self,
        client: FeatureClient,
        target: LabelTarget,
        *,
        mode: str = AUTO,
        take_over: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Set the mode: AUTO, NODE_FEATURE or NODE.

        With `take_over`, the agent takes over labels that NFD or GFD left on the Node.
        """
        self._client = client
        self._target = target
        self._mode = mode
        self._take_over = take_over
        self._adopted: set[str] = set()
        self._clock = clock
        self._writer = FeatureWriter(client, target)
        self._object_removed = False
        self._last: tuple[Mapping[str, str], Features, float, LabelWriteResult] | None = None
        self._waiting_since: float | None = None

    def publish(self, labels: Mapping[str, str], features: Features) -> LabelWriteResult:
        """Make the API server's state equal to the labels, all of them valid, and the features.

        Raises KubeError; the caller then retries.
        """
        if self._last is not None:
            before_labels, before_features, verified_at, result = self._last
            same = (before_labels, before_features) == (labels, features)
            if same and self._clock() - verified_at < MASTER_TIMEOUT:
                return LabelWriteResult(problems=result.problems, counts=result.counts)
        self._last = None  # a write that fails may have taken effect
        object_result = self._write_object(labels, features)
        node_result = self._label_node(labels, object_result.served)
        writes = tuple(
            what for what, sent in (("nodefeature", object_result.bytes), ("node", node_result.bytes)) if sent
        )
        result = LabelWriteResult(
            writes,
            object_result.bytes + node_result.bytes,
            object_result.problems + node_result.problems,
            (("nodefeature", object_result.label_count), ("node", node_result.label_count)),
        )
        self._last = (dict(labels), features, self._clock(), result)
        return result

    def _write_object(self, labels: Mapping[str, str], features: Features) -> _PathResult:
        target = self._target
        if self._mode == NODE:
            if not self._object_removed and target.namespace:
                self._writer.remove()  # an agent with another setting may have left it
                self._object_removed = True
            return _PathResult()
        if not target.namespace or not is_label_value(target.node):
            reason = (
                "no namespace is configured" if not target.namespace else f"{target.node} is not a valid label value"
            )
        else:
            try:
                size = _retry_conflicts(lambda: self._writer.write(labels, features))
                return _PathResult(size, served=True, label_count=len(labels))
            except NotServed as error:
                reason = str(error)
            except Forbidden as error:  # also if the kind is not served: authorization comes first
                if self._mode != AUTO:
                    raise
                reason = str(error)
        log.debug("no NodeFeature: %s", reason)
        return _PathResult(problems=() if self._mode == AUTO else (f"there is no NodeFeature: {reason}",))

    def _label_node(self, labels: Mapping[str, str], served: bool) -> _PathResult:
        """Label the Node; if that is forbidden, leave out the labels that an admission policy may reject."""
        try:
            return self._label_node_with(labels, served)
        except Forbidden as error:
            accepted = {name: value for name, value in labels.items() if name.startswith(_POLICY_PREFIXES)}
            if len(accepted) == len(labels):
                raise
            result = self._label_node_with(accepted, served)
            rejected = ", ".join(sorted(labels.keys() - accepted.keys()))
            problem = f"the Node cannot have the labels {rejected[:300]} of feature files and rules: {error}"
            return result._replace(problems=(*result.problems, problem))

    def _label_node_with(self, labels: Mapping[str, str], served: bool) -> _PathResult:
        def attempt() -> _PathResult:
            metadata: Object = self._client.get(NODES, self._target.node)["metadata"]
            desired, instance = labels, self._target.instance
            if self._mode == NODE_FEATURE or (served and not self._is_master_absent(labels, metadata)):
                # labels that we set earlier stay correct until a master claims them
                desired = {name: labels[name] for name in owned_labels(metadata, instance) & labels.keys()}
            reclaimed = len(self._adopted & claimed_by_nfd(metadata) & desired.keys())
            patch = node_labels_patch(desired, metadata, instance, take_over=self._may_take_over)
            if patch.body:
                self._client.patch(
                    NODES, self._target.node, patch.body, kind=PatchKind.MERGE, field_manager=FIELD_MANAGER
                )
                self._note_adopted(patch.adopted)
            size = len(msgspec.json.encode(patch.body)) if patch.body else 0
            problems = (f"{_RECLAIMED}: it owns {reclaimed} labels again",) if reclaimed else ()
            return _PathResult(size, patch.problems + problems, label_count=patch.owned)

        try:
            return _retry_conflicts(attempt)
        except Forbidden as error:
            if not served:
                raise
            problem = (
                "no master of Node Feature Discovery has set the agent's labels, and the agent may not set "
                f"them itself: {error}"
            )
            return _PathResult(problems=(problem,))

    def _may_take_over(self, name: str) -> bool:
        """Return whether a label may be taken over. It may be only once: a master that claims it again is running."""
        return self._take_over and name not in self._adopted

    def _note_adopted(self, labels: Mapping[str, str]) -> None:
        self._adopted.update(labels)
        for manager in sorted(set(labels.values())):
            names = [name for name, owner in labels.items() if owner == manager]
            log.info("took over %d labels that %s had set: %s", len(names), manager, ", ".join(names))

    def _is_master_absent(self, labels: Mapping[str, str], metadata: Object) -> bool:
        """Return whether no master has set our labels for long enough; only labels that no other object
        requests count.
        """
        only_ours = {name for name in labels if name.startswith(f"{OWN}/")} or labels.keys()
        if not claimed_by_nfd(metadata).isdisjoint(only_ours):
            self._waiting_since = None
            return False
        if self._waiting_since is None:
            self._waiting_since = self._clock()
        return self._clock() - self._waiting_since >= MASTER_TIMEOUT


def _retry_conflicts(attempt: Callable[[], T]) -> T:
    """Return the result of an attempt, repeated if another client has written since the attempt read the object."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return attempt()
        except (Conflict, AlreadyExists, Invalid) as error:  # Invalid: the test in a JSON patch failed
            log.debug("changed in the meantime, reading it again: %s", error)
    return attempt()
