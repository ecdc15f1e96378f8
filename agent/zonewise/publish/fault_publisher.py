"""Publishes faults: conditions, events and a taint of the Node, and conditions and events of the pods that a fault hit.

It compares the current faults with those already written, so a lasting fault costs no requests. After a restart the
same objects are written once more, under the same names.
"""

from __future__ import annotations

import logging
import math
import time
from collections import OrderedDict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from zonewise.health.types import Severity
from zonewise.objects.hardware_faults import (
    event_message,
    event_suffix,
    node_conditions,
    pod_condition,
    reason,
)
from zonewise.publish.node_event import EventClient
from zonewise.publish.nrt_publisher import FIELD_MANAGER
from zonewise.publish.output_publisher import NodeClient
from zonewise_common.k8s.hardware_conditions import TAINT
from zonewise_common.kube.client import PatchKind
from zonewise_common.kube.errors import ApiError, Conflict, Forbidden, Invalid, NotFound
from zonewise_common.kube.events import Occurrences, event, node_reference, timestamp, utc_now
from zonewise_common.kube.resources import EVENTS, NODES, PODS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from zonewise.health.types import Fault, PodName
    from zonewise.objects.hardware_faults import Condition

log = logging.getLogger(__name__)

Object = dict[str, Any]

HEARTBEAT = 600.0
"""Seconds after which unchanged conditions are written again: the heartbeat shows that the agent still runs."""
MAX_WRITTEN = 2048
"""Maximum number of faults and pods that are remembered as written."""
START_DELAY = 60.0
"""Seconds that the kubelet may take to report the start of a pod after it has allocated devices to the pod."""
EVENT_INTERVAL = 30.0
"""Seconds between two writes of one event whose count rises."""


class FaultClient(NodeClient, EventClient, Protocol):
    """The part of a zonewise.kube Client that is needed."""


class FaultWrites(NamedTuple):
    """The number of requests that one publish made, by object."""

    node: int = 0
    pods: int = 0
    events: int = 0

    @property
    def total(self) -> int:
        """Return the total number of requests."""
        return self.node + self.pods + self.events


class FaultPublisher:
    """Publishes the faults of one node. Not thread-safe."""

    def __init__(
        self,
        client: FaultClient,
        node: str,
        *,
        taint: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Set the node, and whether a failed device taints it."""
        self._client = client
        self._node = node
        self._taint = taint
        self._clock = clock
        self._conditions: tuple[Condition, ...] = ()
        self._conditions_at = -math.inf
        self._tainted: bool | None = None
        self._written: OrderedDict[tuple[str, ...], tuple[int, float]] = OrderedDict()

    def publish(self, faults: Sequence[Fault]) -> FaultWrites:
        """Make the API server's state match the active faults. Raises KubeError; the caller then retries.

        Pods come first: a Job decides as soon as its pod has ended.
        """
        active = [fault for fault in faults if fault.active]
        pods, rejection = self._write_pods(active)
        written = self._write_node(active)
        events = sum(self._write_events(fault) for fault in active)
        if rejection is not None:
            raise rejection
        return FaultWrites(written, pods, events)

    # --- pods

    def _write_pods(self, faults: Sequence[Fault]) -> tuple[int, ApiError | None]:
        """Set the conditions of all pods; return the number of requests and the last rejection.

        An admission webhook may reject the change of one pod. The Node and other pods show the fault nevertheless.
        """
        writes, rejection = 0, None
        for fault in faults:
            for name, held_since in _hits(fault):
                try:
                    writes += self._write_pod(fault, name, held_since)
                except ApiError as error:
                    rejection = error
        return writes, rejection

    def _write_pod(self, fault: Fault, name: PodName, held_since: float) -> int:
        """Set the condition of a pod, unless it is set already or another pod now has the same name."""
        condition = pod_condition(fault)
        key = ("pod", name.namespace, name.pod, *map(str, fault.key), f"{fault.first:.0f}", f"{held_since:.0f}")
        occurrences, written_at = self._written.get(key, (0, -math.inf))
        if condition is None or fault.occurrences == occurrences or self._clock() - written_at < EVENT_INTERVAL:
            return 0
        if occurrences and fault.sign.event_at is None:
            return 0
        try:
            written = self._patch_pod(fault, name, held_since, condition)
        except NotFound:
            written = 0  # it was deleted meanwhile
        self._remember(key, fault.occurrences)
        return written

    def _patch_pod(self, fault: Fault, name: PodName, held_since: float, condition: Condition) -> int:
        pod = self._client.get(PODS, name.pod, namespace=name.namespace)
        if pod.get("spec", {}).get("nodeName") != self._node or not _is_hit(pod, fault, held_since):
            return 0
        present = next((c for c in pod["status"].get("conditions") or () if c.get("type") == condition.type), None)
        if present is not None and _outranks(present, condition):
            return 0
        entry = {**condition._asdict(), "lastTransitionTime": timestamp(utc_now())}
        # with the UID the patch fails if another pod now has the same name
        body: Object = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"conditions": [entry]}}
        try:
            self._client.patch(
                PODS, name.pod, body, kind=PatchKind.STRATEGIC, namespace=name.namespace, subresource="status",
                field_manager=FIELD_MANAGER,
            )  # fmt: skip
        except (Conflict, Invalid) as error:
            log.info("pod %s/%s was replaced in the meantime: %s", name.namespace, name.pod, error)
            return 0
        log.info("pod %s: %s %s", name, condition.reason, condition.message)
        return 1

    # --- the Node

    def _write_node(self, faults: Sequence[Fault]) -> int:
        """Write the conditions, and the taint if it is configured; both are verified at each heartbeat."""
        conditions = node_conditions(faults)
        tainted = self._taint and any(fault.sign.severity is Severity.FAILED for fault in faults)
        is_due = conditions != self._conditions or self._clock() - self._conditions_at >= HEARTBEAT
        if not is_due and tainted == self._tainted:
            return 0
        node, writes = self._client.get(NODES, self._node), 0
        if is_due:
            self._conditions_at = -math.inf  # a write that fails may have taken effect
            node, writes = self._patch_conditions(node, conditions), 1
            self._conditions, self._conditions_at = conditions, self._clock()
        self._tainted = None
        writes += self._patch_taint(node, tainted) if self._taint else self._remove_taint(node)
        self._tainted = tainted
        return writes

    def _patch_conditions(self, node: Object, conditions: Sequence[Condition]) -> Object:
        """Write the conditions; return the resulting Node."""
        present = {entry["type"]: entry for entry in node.get("status", {}).get("conditions") or ()}
        now = timestamp(utc_now())
        entries = [_entry(condition, present.get(condition.type), now) for condition in conditions]
        return self._client.patch(
            NODES, self._node, {"status": {"conditions": entries}}, kind=PatchKind.STRATEGIC, subresource="status",
            field_manager=FIELD_MANAGER,
        )  # fmt: skip

    def _remove_taint(self, node: Object) -> int:
        """Remove the taint of an earlier agent that had the setting; return the number of requests."""
        try:
            return self._patch_taint(node, tainted=False)
        except (Forbidden, Invalid) as error:  # an admission policy rejects as invalid
            log.warning("the taint %s remains on the Node because the agent may not remove it: %s", TAINT, error)
            return 0

    def _patch_taint(self, node: Object, tainted: bool) -> int:
        """Add or remove the taint; return the number of requests."""
        present: list[Object] = node.get("spec", {}).get("taints") or []
        others = [taint for taint in present if taint.get("key") != TAINT]
        after = [*others, {"key": TAINT, "effect": "NoSchedule", "value": "failed"}] if tainted else others
        if len(after) == len(present):
            return 0
        # the list is replaced as a whole (listType=atomic), so the resource version must be the one that was read
        body: Object = {
            "metadata": {"resourceVersion": node["metadata"].get("resourceVersion")}, "spec": {"taints": after}
        }  # fmt: skip
        self._client.patch(NODES, self._node, body, kind=PatchKind.MERGE, field_manager=FIELD_MANAGER)
        return 1

    # --- events

    def _write_events(self, fault: Fault) -> int:
        """Write the events of a fault: on the Node, and on each pod that it hit."""
        references = [node_reference(self._node), *self._pod_references(fault)]
        return sum(self._write_event(fault, reference) for reference in references)

    def _pod_references(self, fault: Fault) -> list[dict[str, str]]:
        if pod_condition(fault) is None:
            return []
        names = dict.fromkeys((pod.namespace, pod.pod) for pod in fault.pods)
        return [{"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name} for namespace, name in names]

    def _write_event(self, fault: Fault, reference: dict[str, str]) -> int:
        suffix = event_suffix(fault)
        key = ("event", reference.get("namespace", ""), reference["name"], suffix)
        occurrences, written_at = self._written.get(key, (0, -math.inf))
        is_event = fault.sign.event_at is not None
        rises = is_event and fault.occurrences > occurrences and self._clock() - written_at >= EVENT_INTERVAL
        if occurrences and not rises:
            return 0
        seen = Occurrences(
            datetime.fromtimestamp(fault.first, UTC), datetime.fromtimestamp(fault.last, UTC),
            fault.occurrences if is_event else 1,
        )  # fmt: skip
        kind = "Normal" if fault.sign.severity is Severity.NOTE else "Warning"
        body = event(
            reference, suffix, FIELD_MANAGER, reason(fault.sign.rule), event_message(fault), event_type=kind, seen=seen
        )
        body["source"]["host"] = self._node
        try:
            self._client.apply(EVENTS, body, field_manager=FIELD_MANAGER)
        except (NotFound, Forbidden) as error:  # a namespace that is being deleted
            log.warning("the Event for %s %s cannot be written: %s", fault.sign.device, fault.sign.rule, error)
        self._remember(key, fault.occurrences)
        return 1

    def _remember(self, key: tuple[str, ...], occurrences: int) -> None:
        self._written[key] = (occurrences, self._clock())
        self._written.move_to_end(key)
        while len(self._written) > MAX_WRITTEN:
            self._written.popitem(last=False)


def _hits(fault: Fault) -> Iterator[tuple[PodName, float]]:
    """Return the pods that a fault hit, with the time since which each has held the device."""
    return zip(fault.pods, fault.held_since, strict=False)


def _is_hit(pod: Object, fault: Fault, held_since: float) -> bool:
    """Return whether the pod had started when the event happened, or when the pod was observed to hold a
    failed device.
    """
    started: str | None = pod.get("status", {}).get("startTime")
    if started is None:
        return True
    is_event = fault.sign.event_at is not None and fault.sign.severity is not Severity.FAILED
    latest = fault.last + 1 if is_event else held_since + START_DELAY
    return datetime.fromisoformat(started).timestamp() <= latest


def _outranks(present: Object, condition: Condition) -> bool:
    """Return whether the pod already has an equally strong condition: hardware outranks programs."""
    ranks = {"True": 2, "Unknown": 1, "False": 0}
    return ranks.get(str(present.get("status")), -1) >= ranks[condition.status]


def _entry(condition: Condition, present: Object | None, now: str) -> Object:
    unchanged = present is not None and present.get("status") == condition.status
    transition = present.get("lastTransitionTime") if unchanged and present is not None else None
    return {**condition._asdict(), "lastHeartbeatTime": now, "lastTransitionTime": transition or now}
