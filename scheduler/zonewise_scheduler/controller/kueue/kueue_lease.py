"""Which controller manages the queues of a cluster, according to the Lease of Kueue's leader election.

    Lease                                     manager
    none, and Kueue's Deployment is ready     Kueue, without leader election
    none, otherwise                           zonewise: Kueue has never led here
    adopted, and not renewed since            zonewise
    not adopted, or renewed since             Kueue, whether it currently runs or not

Adopted means that the annotation ADOPTED_ANNOTATION holds the renewal time that the Lease had when Kueue was stopped.
So no clocks are compared, and Kueue keeps its queues when it is upgraded or restarted. Kueue's renewals do not change
annotations (client-go tools/leaderelection/resourcelock/leaselock.go Update).

Invariant: the two controllers manage the queues at the same time for no longer than it takes to read the Lease.

1. Kueue acts only after it has renewed its Lease.
2. A renewal changes the renewal time, so the Lease is no longer adopted.
3. A replica reads the Lease every GUARD_PERIOD, and stops leading at the next reading.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.fields import FieldReader
from zonewise_common.kube.errors import Forbidden, NotFound
from zonewise_common.kube.resources import DEPLOYMENTS, LEASES

if TYPE_CHECKING:
    from zonewise_common.kube.client import Client
    from zonewise_scheduler.controller.types import Json

DEFAULT_LEASE = "kueue-system/c1f6bfd2.kueue.x-k8s.io"
"""Kueue's default namespace, and the name from apis/config/v1beta2/defaults.go DefaultLeaderElectionID."""
DEPLOYMENT = "kueue-controller-manager"
"""Kueue's Deployment, in the namespace of its Lease (config/default, charts/kueue)."""
ADOPTED_ANNOTATION = "zonewise.dev/adopted-renew-time"
GUARD_PERIOD = 2.0
"""Seconds between two readings of the Lease, equal to client-go's renewal period."""
_NEVER = "never"


class LeaseName(NamedTuple):
    """The namespace and name of a Lease."""

    namespace: str
    name: str

    def __str__(self) -> str:
        """Return the name in the form used in messages."""
        return f"{self.namespace}/{self.name}"


def parse_lease_name(text: str) -> LeaseName | None:
    """Return the Lease that a text names; None if the text is empty. Raises ValueError."""
    if not text:
        return None
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise ValueError(f"{text[:80]!r} is not a Lease: use NAMESPACE/NAME")
    return LeaseName(namespace, name)


def renewal(lease: Json) -> str:
    """Return the time of a Lease's last renewal in the API's format."""
    return FieldReader(lease, "", []).child("spec").text("renewTime") or _NEVER


def holder(lease: Json) -> str:
    """Return the current or last holder of a Lease; "": it was released."""
    return FieldReader(lease, "", []).child("spec").text("holderIdentity")


def duration(lease: Json) -> int:
    """Return the seconds after which a Lease that is not renewed is free."""
    return FieldReader(lease, "", []).child("spec").count("leaseDurationSeconds") or 0


def is_adopted(lease: Json) -> bool:
    """Return whether the Lease was adopted and Kueue has not renewed it since then."""
    annotations = FieldReader(lease, "", []).child("metadata").pairs("annotations")
    return annotations.get(ADOPTED_ANNOTATION) == renewal(lease)


def read_lease(client: Client, name: LeaseName) -> Json | None:
    """Return Kueue's Lease; None: there is none. Raises KubeError."""
    try:
        return client.get(LEASES, name.name, namespace=name.namespace)
    except NotFound:
        return None


def runs_without_lease(client: Client, name: LeaseName) -> bool:
    """Return whether Kueue's Deployment has ready pods. Call this only if there is no Lease. Raises KubeError.

    A Kueue whose Deployment has another name is only noticed by its Lease.
    """
    try:
        deployment = client.get(DEPLOYMENTS, DEPLOYMENT, namespace=name.namespace)
    except (NotFound, Forbidden):
        return False
    return bool(FieldReader(deployment, "", []).child("status").count("readyReplicas"))


def kueue_claim(name: LeaseName, lease: Json | None, *, without_lease: bool = False) -> str:
    """Return why Kueue manages the queues; "": it does not. Renewals do not change the text.

    `without_lease`: Kueue runs although there is no Lease.
    """
    if lease is None and without_lease:
        deployment = f"{name.namespace}/{DEPLOYMENT}"
        return f"Kueue manages the queues: Deployment {deployment} is ready but has no Lease. Scale it to 0"
    if lease is None or is_adopted(lease):
        return ""
    state = f"is held by {leader}" if (leader := holder(lease)) else "is Kueue's, although no replica holds it"
    return f"Kueue manages the queues: Lease {name} {state}. Stop Kueue and run `zonewise adopt`"
