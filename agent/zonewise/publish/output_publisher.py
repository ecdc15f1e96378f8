"""Publishes what rules give a Node besides labels, and removes an output when its rule is removed."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from zonewise.publish.node_outputs import has_record, node_patches, withdrawal_patches
from zonewise.publish.nrt_publisher import FIELD_MANAGER
from zonewise_common.kube.client import PatchKind
from zonewise_common.kube.errors import Conflict, Forbidden, Invalid, NotFound
from zonewise_common.kube.resources import NODES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zonewise.publish.node_outputs import NodeOutputs, NodePatches
    from zonewise_common.kube.resources import Resource

log = logging.getLogger(__name__)

VERIFY_INTERVAL = 300.0
"""Seconds after which the Node is compared again. A kubelet that has lost its checkpoint sets extended resources to 0
(pkg/kubelet/kubelet_node_status.go, reconcileExtendedResource)."""
_ATTEMPTS = 4
"""The kubelet writes to its Node as well."""

Object = dict[str, Any]


class NodeClient(Protocol):
    """The part of a zonewise.kube Client that is needed."""

    def get(self, resource: Resource, name: str, *, namespace: str | None = None) -> Object:
        """Return an object."""
        ...

    def patch(
        self,
        resource: Resource,
        name: str,
        patch: Object | Sequence[Object],
        *,
        kind: PatchKind,
        namespace: str | None = None,
        subresource: str = "",
        field_manager: str = "",
    ) -> Object:
        """Patch an object."""
        ...


class OutputWriteResult(NamedTuple):
    """The outcome of one publish."""

    bytes: int = 0
    """Total bytes of the requests' bodies; 0 if nothing was sent."""
    problems: tuple[str, ...] = ()


class OutputPublisher:
    """Publishes the outputs of rules on one Node. Not thread-safe."""

    def __init__(
        self, client: NodeClient, node: str, instance: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Publish as an instance: outputs of other instances are left unchanged."""
        self._client = client
        self._node = node
        self._instance = instance
        self._clock = clock
        self._last: tuple[NodeOutputs, float, OutputWriteResult] | None = None

    def publish(self, desired: NodeOutputs) -> OutputWriteResult:
        """Set the desired outputs on the Node. Raises KubeError; the caller then retries."""
        if self._last is not None:
            before, verified_at, result = self._last
            if before == desired and self._clock() - verified_at < VERIFY_INTERVAL:
                return OutputWriteResult(problems=result.problems)
        self._last = None  # a write that fails may have taken effect
        result = self._write(lambda node: node_patches(desired, node, self._instance))
        self._last = (desired, self._clock(), result)
        return result

    def withdraw(self) -> int:
        """Remove what an earlier agent with this instance has set; return the bytes sent. Raises KubeError."""
        try:
            if not has_record(self._client.get(NODES, self._node), self._instance):
                return 0
            return self._write(lambda node: withdrawal_patches(node, self._instance)).bytes
        except NotFound:  # a Node that does not exist yet has no outputs
            return 0
        except Forbidden as error:
            log.warning("outputs of rules remain on the Node because the agent may not remove them: %s", error)
            return 0

    def _write(self, patches_of: Callable[[Object], NodePatches]) -> OutputWriteResult:
        for _ in range(_ATTEMPTS - 1):
            try:
                return self._attempt(patches_of)
            except (Conflict, Invalid) as error:
                log.debug("changed in the meantime, reading it again: %s", error)
        return self._attempt(patches_of)

    def _attempt(self, patches_of: Callable[[Object], NodePatches]) -> OutputWriteResult:
        patches = patches_of(self._client.get(NODES, self._node))
        size = self._patch(patches.node) + self._patch(patches.status, "status") + self._patch(patches.record)
        return OutputWriteResult(size, patches.problems)

    def _patch(self, body: Object, subresource: str = "") -> int:
        if not body:
            return 0
        self._client.patch(
            NODES, self._node, body, kind=PatchKind.MERGE, subresource=subresource, field_manager=FIELD_MANAGER
        )
        return len(msgspec.json.encode(body))
