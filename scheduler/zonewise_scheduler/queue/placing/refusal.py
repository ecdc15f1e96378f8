"""Why pods find no place: which level, which domain and, where it is a kubelet, what that one lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.fit.kubelet.sentences import sentence
from zonewise_scheduler.queue.placing.fill import ANYWHERE, TOGETHER, answer, fill
from zonewise_scheduler.queue.placing.zones import ZONE
from zonewise_scheduler.queue.quota.places import NoPlace
from zonewise_scheduler.queue.topology.model import HOSTNAME

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zonewise_scheduler.queue.placing.search import Outcome, Search
    from zonewise_scheduler.queue.topology.refusal import Refused


def no_place(one: Search, outcome: Outcome, refused: Refused) -> NoPlace:
    """Return a refusal as quotas have it, with what is known of kubelets."""
    resources = refused.excluded.resources
    found = NoPlace(
        refused.pod_set,
        one.ground.flavor.name,
        str(refused),
        refused.level,
        refused.domain,
        refused.fits,
        refused.wanted,
        refused.size,
        max(sorted(resources), key=resources.__getitem__, default=""),
    )
    names = [pods.name for pods in outcome.pod_sets]
    place = names.index(refused.pod_set) if refused.pod_set in names else 0
    pods, whole = outcome.pod_sets[place], outcome.wholes[place]
    shape = one.wishes[place].pod_set.shape
    if one.trial is None or shape is None or pods.most is None or refused.problem or not pods.most.size:
        return found
    leaf = _leaf(one, pods.most, refused)
    state = one.trial.state(int(one.ground.rows[leaf]))
    if state is None:
        return found
    filled = fill(state, shape, int(pods.most[leaf]), whole)
    if whole == TOGETHER:
        zones = [str(zone) for zone in state.kind.zones if filled.zones >> zone & 1]
        found = found._replace(level=ZONE, domain=(*refused.domain, *zones))
    verdict = answer(filled.after, shape)
    if verdict.admitted and whole == ANYWHERE:
        return found
    lack = sentence(filled.after, shape, verdict) or "the next of them would be in another zone"
    return found._replace(node=one.ground.nodes.name(int(one.ground.rows[leaf])), kubelet=lack)


def _leaf(one: Search, most: NDArray[np.int64], refused: Refused) -> int:
    """Return the host that is in the way, or else the first of those that take most."""
    leaf = one.ground.tree.leaf(refused.domain[-1:]) if refused.level == HOSTNAME else None
    return int(most.argmax()) if leaf is None else leaf
