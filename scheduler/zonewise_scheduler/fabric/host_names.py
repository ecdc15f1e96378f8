"""The host in the node description of an HCA.

rdma-ndd writes the host and the device, "%h %d" by default (rdma-core, rdma-ndd/rdma-ndd.8.in): "node7 mlx5_0". Older
scripts write "node7 HCA-1". A name map of ibnetdiscover may leave out the device. Before rdma-ndd has run, the
description is the model of the adapter, which contains no host.
"""

from __future__ import annotations

import re

from zonewise_common.k8s.labels import is_subdomain

_DEVICE = re.compile(r"HCA-\d+|[a-z][a-z0-9_]*\d[a-z0-9_]*")
"""A device of rdma-core, such as mlx5_0, hfi1_0 or ibp24s0."""
_NO_HOSTS = frozenset({"localhost", "localhost.localdomain"})
"""Names of every host that has not been named yet."""
_AGGREGATION = "Aggregation Node"


def host_of(description: str) -> str:
    """Return the lowercase host in a node description; "" if it contains none."""
    words = description.split()
    if not words or len(words) > 2 or (len(words) == 2 and not _DEVICE.fullmatch(words[1])):
        return ""
    host = words[0].lower()
    return host if is_subdomain(host) and host not in _NO_HOSTS else ""


def is_aggregation_node(description: str) -> bool:
    """Return whether an HCA is the part of a switch that reduces data in the network (NVIDIA SHARP)."""
    return description.endswith(_AGGREGATION)
