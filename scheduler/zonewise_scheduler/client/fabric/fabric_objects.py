"""The objects that describe a fabric: the Topology of Kueue, and Nodes with nothing but labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.kube.resources import NODES, TOPOLOGIES
from zonewise_scheduler.quota.topology.types import HOSTNAME

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.client.cluster.session import Json


def topology_object(name: str, labels: Sequence[str]) -> Json:
    """Return the Topology, from the widest level to the node, as Kueue recommends it.

    `labels` are those of the levels, the closest level first.
    """
    levels = [{"nodeLabel": label} for label in (*reversed(labels), HOSTNAME)]
    return {
        "apiVersion": TOPOLOGIES.api_version,
        "kind": TOPOLOGIES.kind,
        "metadata": {"name": name},
        "spec": {"levels": levels},
    }


def node_object(name: str, labels: Mapping[str, str], uid: str) -> Json:
    """Return a Node for server-side apply. With its UID, the API server changes this node and never creates one."""
    return {
        "apiVersion": NODES.api_version,
        "kind": NODES.kind,
        "metadata": {"name": name, "uid": uid, "labels": dict(labels)},
    }
