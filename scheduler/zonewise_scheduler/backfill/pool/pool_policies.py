"""The policies of a pool, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.backfill.policies import DEFAULT_RESERVE_AFTER, policy_named
from zonewise_scheduler.backfill.pool.conservative import ConservativeBackfill
from zonewise_scheduler.backfill.pool.easy import EasyBackfill

if TYPE_CHECKING:
    from zonewise_scheduler.backfill.policies import BackfillPolicy
    from zonewise_scheduler.backfill.pool.pool_state import PoolPolicy


def pool_policy_named(name: str, reserve_after: float = DEFAULT_RESERVE_AFTER) -> PoolPolicy:
    """Return a policy by name, for one PoolState; `reserve_after`, in seconds, applies only to the default policy.

    Raises ValueError for an unknown name.
    """
    return pool_policy(policy_named(name, reserve_after))


def pool_policy(policy: BackfillPolicy) -> PoolPolicy:
    """Return the implementation of a policy, for one PoolState."""
    return ConservativeBackfill(policy) if policy.eager or policy.depth != 1 else EasyBackfill(policy)
