"""ClusterQueues and LocalQueues as values, read from their objects (apis/kueue/v1beta2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.k8s.fields import FieldReader
from zonewise_scheduler.quota.api.amount import amount_from_quantity, amount_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Json = dict[str, Any]


class FlavorUsage(NamedTuple):
    """The quota of one resource in one flavor; amounts as in quota/api/amount.py."""

    flavor: str
    resource: str
    nominal: int
    borrowing_limit: int | None
    lending_limit: int | None
    reserved: int | None
    """Amount reserved by workloads with quota; None if the queue has no status yet."""
    used: int | None
    """Amount used by admitted workloads."""
    borrowed: int | None

    def document(self) -> Json:
        """Return the JSON document, with the names of the read API."""
        amounts = {
            "nominalQuota": self.nominal,
            "borrowingLimit": self.borrowing_limit,
            "lendingLimit": self.lending_limit,
            "reserved": self.reserved,
            "used": self.used,
            "borrowed": self.borrowed,
        }
        texts = {name: _text(self.resource, amount) for name, amount in amounts.items()}
        return {"flavor": self.flavor, "resource": self.resource, **texts}


class QueueFacts(NamedTuple):
    """A ClusterQueue or a LocalQueue. Counts are None if it has no status yet."""

    kind: str
    name: str
    namespace: str = ""
    cohort: str = ""
    cluster_queue: str = ""
    """The ClusterQueue of a LocalQueue."""
    resources: tuple[FlavorUsage, ...] = ()
    share: int | None = None
    """weightedShare of fair sharing; None if fair sharing is off or the share is unknown."""
    pending: int | None = None
    reserving: int | None = None
    admitted: int | None = None
    active: bool | None = None
    reason: str = ""
    message: str = ""
    """The message of the condition Active."""

    def document(self) -> Json:
        """Return the JSON document, with the names of the read API. A LocalQueue has no quota of its own."""
        usages = [usage.document() for usage in self.resources]
        if self.kind != "ClusterQueue":
            usages = [{name: usage[name] for name in ("flavor", "resource", "reserved", "used")} for usage in usages]
        own: Json = (
            {"cohort": self.cohort or None, "weightedShare": self.share}
            if self.kind == "ClusterQueue"
            else {"namespace": self.namespace, "clusterQueue": self.cluster_queue}
        )
        return {
            "name": self.name,
            **own,
            "active": self.active,
            "reason": self.reason or None,
            "message": self.message or None,
            "pendingWorkloads": self.pending,
            "reservingWorkloads": self.reserving,
            "admittedWorkloads": self.admitted,
            "resources": usages,
        }


def read_cluster_queue(obj: Mapping[str, Any], problems: list[str]) -> QueueFacts:
    """Return a ClusterQueue; damaged fields are reported as problems."""
    reader = FieldReader(obj, "", problems)
    spec, status = reader.child("spec"), reader.child("status")
    reserved, used = _totals(status, "flavorsReservation"), _totals(status, "flavorsUsage")
    borrowed = _totals(status, "flavorsReservation", "borrowed")
    usages: list[FlavorUsage] = []
    for group in spec.children("resourceGroups"):
        for flavor in group.children("flavors"):
            for quota in flavor.children("resources"):
                key = flavor.text("name"), quota.text("name")
                usages.append(
                    FlavorUsage(
                        *key,
                        _amount(quota, "nominalQuota", key[1]) or 0,
                        _amount(quota, "borrowingLimit", key[1]),
                        _amount(quota, "lendingLimit", key[1]),
                        reserved.get(key),
                        used.get(key),
                        borrowed.get(key),
                    )
                )
    share = status.child("fairSharing").number("weightedShare") if status.has("fairSharing") else None
    facts = _queue("ClusterQueue", reader.child("metadata"), status)
    cohort = spec.text("cohortName") or spec.text("cohort")
    return facts._replace(cohort=cohort, resources=tuple(usages), share=share)


def read_local_queue(obj: Mapping[str, Any], problems: list[str]) -> QueueFacts:
    """Return a LocalQueue; damaged fields are reported as problems. Its usage is that of its own workloads."""
    reader = FieldReader(obj, "", problems)
    status = reader.child("status")
    reserved, used = _totals(status, "flavorsReservation"), _totals(status, "flavorsUsage")
    usages = (FlavorUsage(*key, 0, None, None, amount, used.get(key), None) for key, amount in reserved.items())
    facts = _queue("LocalQueue", reader.child("metadata"), status)
    return facts._replace(cluster_queue=reader.child("spec").text("clusterQueue"), resources=tuple(usages))


def sorted_queues(queues: Iterable[QueueFacts]) -> list[QueueFacts]:
    """Return queues sorted by cohort, namespace and name."""
    return sorted(queues, key=lambda queue: (queue.cohort, queue.namespace, queue.name))


def _queue(kind: str, metadata: FieldReader, status: FieldReader) -> QueueFacts:
    conditions = {entry.text("type"): entry for entry in status.children("conditions")}
    active = conditions.get("Active")
    # the server omits a count of 0, which is known once there is a condition
    default = None if active is None else 0
    return QueueFacts(
        kind,
        metadata.text("name"),
        metadata.text("namespace"),
        pending=status.count("pendingWorkloads", default),
        reserving=status.count("reservingWorkloads", default),
        admitted=status.count("admittedWorkloads", default),
        active=None if active is None else active.text("status") == "True",
        reason="" if active is None else active.text("reason"),
        message="" if active is None else active.text("message"),
    )


def _totals(status: FieldReader, field: str, amount: str = "total") -> dict[tuple[str, str], int]:
    return {
        (flavor.text("name"), resource.text("name")): _amount(resource, amount, resource.text("name")) or 0
        for flavor in status.children(field)
        for resource in flavor.children("resources")
    }


def _amount(reader: FieldReader, field: str, resource: str) -> int | None:
    return reader.quantity(field, lambda text: amount_from_quantity(resource, text))


def _text(resource: str, amount: int | None) -> str | None:
    return None if amount is None else amount_text(resource, amount)
