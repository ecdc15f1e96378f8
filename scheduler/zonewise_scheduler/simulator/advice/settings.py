"""The settings that advice covers: nodes, a nominal quota, and the threshold of reservations.

Each setting has a ladder of positions for the search and a value for each position. It applies a value to the trace or
the policy.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, Protocol

from zonewise_common.phrases import first_names
from zonewise_scheduler.admission.resource_names import CPU, EPHEMERAL_STORAGE, is_memory
from zonewise_scheduler.backfill.policies import DEFAULT_POLICY, policy_named
from zonewise_scheduler.quota.api.amount import UNLIMITED
from zonewise_scheduler.quota.api.resource_quota import FlavorResource, ResourceQuota, resource_quotas
from zonewise_scheduler.simulator.advice.goal import MAX_NAMED
from zonewise_scheduler.simulator.inputs.fleet_levels import MAX_NODES
from zonewise_scheduler.simulator.inputs.source_files import InputError
from zonewise_scheduler.simulator.pool_log import MAX_PROCESSORS
from zonewise_scheduler.simulator.swf import SwfLog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zonewise_scheduler.backfill.policies import BackfillPolicy
    from zonewise_scheduler.quota.api.queue_types import ClusterQueue
    from zonewise_scheduler.quota.api.resource_quota import ResourceGroup
    from zonewise_scheduler.simulator.scenario import Scenario

    Simulated = tuple[SwfLog | Scenario, BackfillPolicy]

MINUTE, HOUR, DAY = 60, 3600, 86_400
_DOUBLINGS = 6
"""The search for a quota or a number of nodes goes up to 2**6 times the present one."""
_GIB = 1 << 30
_MILLI = 1000
_SHORT_FLEET = re.compile(r"(\d{1,7})((?:x[^x]+){0,2})", re.ASCII)


class AdvisedSetting(Protocol):
    """A setting whose smallest sufficient value is sought."""

    @property
    def name(self) -> str:
        """The heading of its column in the table."""
        ...

    @property
    def ladder(self) -> Sequence[int]:
        """Ascending positions, from the lowest to the highest value."""
        ...

    @property
    def start(self) -> int:
        """The index of the rung to begin at."""
        ...

    @property
    def present(self) -> int | None:
        """The position of the value in the trace; None if it lies between two positions or is unlimited."""
        ...

    def value(self, position: int) -> float:
        """Return the value at a position, in the unit of the JSON document."""
        ...

    def text(self, position: int) -> str:
        """Return the value at a position as text."""
        ...

    def apply(self, position: int) -> Simulated:
        """Return the trace and the policy with this value."""
        ...


class NodeCount(NamedTuple):
    """The number of nodes, or of processors for a log on one pool; jobs and submissions do not change."""

    source: SwfLog | Scenario
    policy: BackfillPolicy
    number: int
    """The present number."""
    load: Callable[[int], Scenario] | None = None
    """Reads the trace with a given number of nodes; None if the source is a log on one pool."""

    @property
    def name(self) -> str:
        """The heading of its column in the table."""
        return "processors" if isinstance(self.source, SwfLog) else "nodes"

    @property
    def ladder(self) -> Sequence[int]:
        """The present number, repeatedly halved and doubled."""
        return _doublings(self.number, MAX_PROCESSORS if isinstance(self.source, SwfLog) else MAX_NODES)

    @property
    def start(self) -> int:
        """The index of the present number."""
        return self.ladder.index(self.number)

    @property
    def present(self) -> int:
        """The present number."""
        return self.number

    def value(self, position: int) -> float:
        """Return the number."""
        return position

    def text(self, position: int) -> str:
        """Return the number as text."""
        return f"{position:,}"

    def apply(self, position: int) -> Simulated:
        """Return the trace on this number of nodes. A mix keeps the jobs that were drawn for the present number."""
        if isinstance(self.source, SwfLog) or self.load is None:
            return self.source._replace(processors=position), self.policy
        return self.load(position)._replace(arrivals=self.source.arrivals), self.policy


class QuotaTarget(NamedTuple):
    """A nominal quota, identified by ClusterQueue, resource and flavor."""

    queue: str
    key: FlavorResource

    def __str__(self) -> str:
        return f"{self.queue}:{self.key.resource}:{self.key.flavor}"


class NominalQuota(NamedTuple):
    """The nominal quota of one ClusterQueue; nodes and other quotas do not change."""

    source: Scenario
    policy: BackfillPolicy
    target: QuotaTarget
    nominal: int
    """The present quota."""

    @property
    def name(self) -> str:
        """The heading of its column: CPUs, GiB, or a count."""
        return f"quota of {self.target.queue}, {self.target.key.resource}{' GiB' if self._unit == _GIB else ''}"

    @property
    def ladder(self) -> Sequence[int]:
        """The present quota, repeatedly halved and doubled, in its unit."""
        return _doublings(max(self.nominal // self._unit, 1), UNLIMITED // self._unit)

    @property
    def start(self) -> int:
        """The index of the present quota, in whole units."""
        return self.ladder.index(max(self.nominal // self._unit, 1))

    @property
    def present(self) -> int | None:
        """The present quota; None if it is not a whole number of units."""
        return self.nominal // self._unit if self.nominal >= self._unit and not self.nominal % self._unit else None

    @property
    def _unit(self) -> int:
        """Return the step of the search: one CPU, GiB or device."""
        resource = self.target.key.resource
        is_size = is_memory(resource) or resource == EPHEMERAL_STORAGE
        return _MILLI if resource == CPU else _GIB if is_size else 1

    def value(self, position: int) -> float:
        """Return CPUs, GiB or a count."""
        return position

    def text(self, position: int) -> str:
        """Return the number as text."""
        return f"{position:,}"

    def apply(self, position: int) -> Simulated:
        """Return the trace with this quota."""
        queues = tuple(
            _with_nominal(queue, self.target.key, position * self._unit) if queue.name == self.target.queue else queue
            for queue in self.source.queues
        )
        return self.source._replace(queues=queues), self.policy


class ReserveAfter(NamedTuple):
    """The wait after which the default policy may reserve any start: 15 min to 14 d, in growing steps."""

    source: SwfLog | Scenario
    after: float
    """The present threshold in seconds."""

    name = "reserve after"
    start = 0

    @property
    def ladder(self) -> Sequence[int]:
        """Every eighth threshold; waits need not rise or fall with the threshold, so the whole range is searched."""
        return [*range(0, len(_THRESHOLDS) - 1, 8), len(_THRESHOLDS) - 1]

    @property
    def present(self) -> int | None:
        """The present threshold; None if it lies between two steps."""
        return _THRESHOLDS.index(self.after) if self.after in _THRESHOLDS else None

    def value(self, position: int) -> float:
        """Return seconds."""
        return _THRESHOLDS[position]

    def text(self, position: int) -> str:
        """Return the threshold as --reserve-after reads it."""
        minutes = round(_THRESHOLDS[position] / MINUTE)
        return f"{minutes // 60}h" if minutes % 60 == 0 else f"{minutes}m"

    def apply(self, position: int) -> Simulated:
        """Return the trace, and the default policy with this threshold."""
        return self.source, policy_named(DEFAULT_POLICY, _THRESHOLDS[position])


_THRESHOLDS: tuple[float, ...] = (
    *map(float, range(15 * MINUTE, 4 * HOUR, 15 * MINUTE)),
    *map(float, range(4 * HOUR, 48 * HOUR, HOUR)),
    *map(float, range(2 * DAY, 14 * DAY + 1, 6 * HOUR)),
)
"""The thresholds, in seconds."""


def parse_node_count(spec: str) -> tuple[int, str]:
    """Return the number of nodes of "64x48x256Gi", and the rest: "x48x256Gi". Raises InputError for any other text."""
    match = _SHORT_FLEET.fullmatch(spec)
    if match is None or not int(match[1]):
        raise InputError("--nodes", f"{spec} has no number of nodes to search: write NUMBERxCPUS[xMEMORY], as 64x48")
    return int(match[1]), match[2]


def find_quota(source: Scenario, text: str) -> tuple[QuotaTarget, int]:
    """Return the quota that "QUEUE:RESOURCE:FLAVOR" names, and its nominal amount; trailing parts may be omitted.

    Raises InputError if no quota or more than one has this name, or if the quota is unlimited.
    """
    quotas = {
        QuotaTarget(queue.name, key): quota.nominal
        for queue in source.queues
        for key, quota in resource_quotas(queue.resource_groups)
        if quota.nominal != UNLIMITED
    }
    parts = text.split(":") if text else []
    matching = [
        target for target in quotas if [target.queue, target.key.resource, target.key.flavor][: len(parts)] == parts
    ]
    if len(matching) != 1:
        problem = "names no limited quota" if not matching else "names more than one quota"
        known = first_names([f"quota:{target}" for target in matching or quotas], MAX_NAMED) or "none"
        raise InputError("--advise", f"quota{':' * bool(text)}{text} {problem}: write one of {known}")
    return matching[0], quotas[matching[0]]


def _doublings(present: int, most: int) -> list[int]:
    """Return a number, repeatedly halved down to 1 and repeatedly doubled."""
    halves = [present >> power for power in range(present.bit_length())]
    doubles = [present << power for power in range(1, _DOUBLINGS + 1) if present << power <= most]
    return sorted({*halves, *doubles})


def _with_nominal(queue: ClusterQueue, key: FlavorResource, nominal: int) -> ClusterQueue:
    groups = tuple(_group_with_nominal(group, key, nominal) for group in queue.resource_groups)
    return queue._replace(resource_groups=groups)


def _group_with_nominal(group: ResourceGroup, key: FlavorResource, nominal: int) -> ResourceGroup:
    def changed(flavor: str, resource: str, quota: ResourceQuota) -> ResourceQuota:
        return quota._replace(nominal=nominal) if FlavorResource(flavor, resource) == key else quota

    flavors = tuple(
        flavor._replace(quotas=tuple((name, changed(flavor.name, name, quota)) for name, quota in flavor.quotas))
        for flavor in group.flavors
    )
    return group._replace(flavors=flavors)
