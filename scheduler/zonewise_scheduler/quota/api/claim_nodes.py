"""The nodes on which pods can use the ResourceClaims that they share (KEP-4381).

kube-scheduler allocates such a claim for its first pod. From then on, every pod that names the claim must run on a node
that status.allocation.nodeSelector selects (plugins/dynamicresources dynamicresources.go Filter).
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import object_in, objects_in, string_in
from zonewise_scheduler.quota.api.pod_set_manifest import with_pod_sets

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_common.k8s.tolerant import Json

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PARTS = ("matchExpressions", "matchFields")


def with_claim_nodes(workload: Json, nodes: Mapping[str, Sequence[Json]]) -> Json:
    """Return a Workload whose pods select the nodes of their allocated claims; the same Workload if none is. Raises
    FieldError.

    `nodes`: terms of a node selector by name of the claim.
    """
    if not nodes:
        return workload
    return with_pod_sets(workload, lambda pod_set, path: _pod_set(pod_set, path, nodes))


def _pod_set(pod_set: Json, path: str, nodes: Mapping[str, Sequence[Json]]) -> Json:
    template = object_in(pod_set, "template", path)
    path += "template.spec."
    spec = object_in(template, "spec", path)
    claims = objects_in(spec, "resourceClaims", path)
    names = [string_in(claim, "resourceClaimName", f"{path}resourceClaims.") for claim in claims]
    of_claims = [nodes[name] for name in dict.fromkeys(names) if name in nodes]
    if not of_claims:
        return pod_set
    affinity = object_in(spec, "affinity", path)
    of_nodes = object_in(affinity, "nodeAffinity", f"{path}affinity.")
    required = object_in(of_nodes, _REQUIRED, f"{path}affinity.nodeAffinity.")
    if required:
        own = objects_in(required, "nodeSelectorTerms", f"{path}affinity.nodeAffinity.{_REQUIRED}.")
        of_claims.insert(0, [term for term in own if any(term.get(part) for part in _PARTS)])  # others select no node
    terms = [_all_of(chosen) for chosen in product(*of_claims)] or [{}]
    with_nodes = {**affinity, "nodeAffinity": {**of_nodes, _REQUIRED: {"nodeSelectorTerms": terms}}}
    return {**pod_set, "template": {**template, "spec": {**spec, "affinity": with_nodes}}}


def _all_of(terms: Sequence[Json]) -> Json:
    """Return the term that selects the nodes which all terms select."""
    return {part: [each for term in terms for each in term.get(part) or ()] for part in _PARTS}
