"""Hand the queues over step by step. If a run is interrupted after any step, the next run continues from there.

To zonewise:

1. Kueue is stopped: its Lease is no longer renewed.
2. The Lease is adopted.
3. The controller has had the time to notice this, so its webhooks hold new jobs.
4. Kueue's webhooks, which reject all jobs until then, are no longer called.
5. Objects are taken over.

Back:

1. The adoption of the Lease is withdrawn.
2. The controller has stopped leading.
3. What it wrote is removed.
4. Kueue's webhooks are called again, and reject new jobs until Kueue is started.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.fields import FieldReader
from zonewise_common.kube.errors import Forbidden, NotFound
from zonewise_common.kube.resources import ADMISSION_CHECKS, CONFIG_MAPS, WORKLOADS
from zonewise_scheduler.controller.kueue.adoption import (
    WEBHOOK_CONFIGURATIONS,
    adoption_writes,
    deletion_obstacles,
    lease_write,
    return_writes,
    webhook_writes,
)
from zonewise_scheduler.controller.kueue.adoption_checks import adoption_obstacles
from zonewise_scheduler.controller.kueue.kueue_configuration import CONFIG_MAP, CONFIG_MAP_KEY, configuration_notes
from zonewise_scheduler.controller.kueue.kueue_lease import (
    GUARD_PERIOD,
    LeaseName,
    duration,
    holder,
    is_adopted,
    read_lease,
    renewal,
    runs_without_lease,
)
from zonewise_scheduler.controller.planning.checkpoint_object import NAME as CHECKPOINT
from zonewise_scheduler.controller.planning.configuration import RESOURCES
from zonewise_scheduler.controller.types import ObjectKey, Verb, Write
from zonewise_scheduler.controller.writing.outcome import attempt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from zonewise_common.k8s.labels import Requirement
    from zonewise_common.kube.client import Client
    from zonewise_common.kube.resources import Resource
    from zonewise_scheduler.controller.jobs.interface import JobAdapter
    from zonewise_scheduler.controller.types import Json

OWN_NAME = "zonewise-controller"
"""Name of the controller's Lease and of its webhook configurations."""
_SEEN_AFTER = 2 * GUARD_PERIOD
"""Seconds after which each replica has read the Lease."""
_MARGIN = 1.0
"""Seconds to wait in addition to the duration of the Lease."""
_ATTEMPTS = 5
"""Attempts to write objects that jobs and controllers change meanwhile."""
_STOP_TIMEOUT = 30
"""Seconds for the controller to release its own Lease."""


class HandoverError(Exception):
    """A step failed. The message explains which one, why, and what to do."""


class HandoverOptions(NamedTuple):
    """The locations of the two controllers' objects."""

    lease: LeaseName
    """Lease of Kueue."""
    namespace: str = "zonewise"
    """Namespace of the controller."""


class Handover:
    """The state of the cluster as it was read, and the steps."""

    def __init__(
        self,
        client: Client,
        adapters: Mapping[tuple[str, str], JobAdapter],
        options: HandoverOptions,
        sleep: Callable[[float], object],
    ) -> None:
        """Set the client and options without reading; `sleep` waits for a number of seconds."""
        self._client, self._adapters, self._options, self._sleep = client, adapters, options, sleep
        self.lease: Json | None = None
        self.objects: dict[Resource, list[Json]] = {}
        self._configuration = ""
        """Text of Kueue's configuration file; "": it cannot be read."""

    def read(self) -> None:
        """Read all objects. Raises HandoverError if the cluster lacks one of Kueue's kinds, and KubeError."""
        self.lease = read_lease(self._client, self._options.lease)
        optional = [adapter.resource for adapter in self._adapters.values()]
        for resource in (*RESOURCES, WORKLOADS, ADMISSION_CHECKS, *WEBHOOK_CONFIGURATIONS):
            try:
                self.objects[resource] = list(self._client.list(resource).items)
            except NotFound as error:
                raise HandoverError(
                    f"the cluster does not serve the kind {resource.kind} of {resource.api_version}: Kueue is not "
                    "installed, or its version lacks it"
                ) from error
        for resource in optional:
            try:
                self.objects[resource] = list(self._client.list(resource).items)
            except (NotFound, Forbidden):
                self.objects[resource] = []
        try:
            config_map = self._client.get(CONFIG_MAPS, CONFIG_MAP, namespace=self._options.lease.namespace)
        except (NotFound, Forbidden):
            config_map = {}
        self._configuration = FieldReader(config_map, "", []).child("data").text(CONFIG_MAP_KEY)

    def kueue_runs(self) -> bool:
        """Return whether Kueue renews its Lease. Wait as long as a renewal may take. Raises KubeError.

        If there is no Lease, the state of Kueue's Deployment decides.
        """
        lease = self.lease
        if lease is None:
            return runs_without_lease(self._client, self._options.lease)
        if is_adopted(lease) or not holder(lease):
            return False
        self._sleep(duration(lease) + _MARGIN)
        self.lease = read_lease(self._client, self._options.lease)
        return self.lease is not None and renewal(self.lease) != renewal(lease)

    def obstacles(self, now: float, managed: tuple[Requirement, ...]) -> list[str]:
        """Return why the queues cannot be adopted in their current state; `managed`: as in adoption_obstacles()."""
        obstacles = adoption_obstacles(self.objects, self._adapters, now, managed)
        return [*obstacles, *deletion_obstacles(self.objects)]

    def notes(self, settings: Mapping[str, object]) -> list[str]:
        """Return what the controller does differently from Kueue's configuration; `settings`: of the controller."""
        name = f"ConfigMap {self._options.lease.namespace}/{CONFIG_MAP}"
        if not self._configuration:
            return [f"{name}: cannot be read, so Kueue's settings are unknown: compare them by hand"]
        return [f"{name}: {note}" for note in configuration_notes(self._configuration, settings)]

    def adoption(self) -> list[list[Write]]:
        """Return the writes of an adoption, grouped by step."""
        lease = None if self.lease is None else lease_write(self.lease, adopted=True)
        off = list(webhook_writes(self.objects, OWN_NAME, called=False))
        return [[] if lease is None else [lease], off, list(adoption_writes(self.objects, self._adapters))]

    def giving_back(self) -> list[list[Write]]:
        """Return the writes of a return, grouped by step."""
        lease = None if self.lease is None else lease_write(self.lease, adopted=False)
        checkpoint = Write(
            Verb.DELETE, ObjectKey(CONFIG_MAPS, self._options.namespace, CHECKPOINT), "delete the checkpoint"
        )
        on = list(webhook_writes(self.objects, OWN_NAME, called=True))
        return [[] if lease is None else [lease], [*return_writes(self.objects, self._adapters), checkpoint], on]

    def adopt(self) -> None:
        """Perform an adoption. Raises HandoverError, KubeError."""
        lease, off, _ = self.adoption()
        self._write(lease)
        self._sleep(_SEEN_AFTER if lease else 0)
        self._write(off)
        self._write_newest(lambda: self.adoption()[2])

    def give_back(self) -> None:
        """Perform a return. Raises HandoverError, KubeError."""
        lease, _, on = self.giving_back()
        self._write(lease)
        self._sleep(_SEEN_AFTER if lease else 0)
        self._wait_released()
        self._write_newest(lambda: self.giving_back()[1])
        self._write(on)

    def _wait_released(self) -> None:
        for _ in range(_STOP_TIMEOUT):
            lease = read_lease(self._client, LeaseName(self._options.namespace, OWN_NAME))
            if lease is None or not holder(lease):
                return
            self._sleep(1)
        raise HandoverError(
            f"Lease {self._options.namespace}/{OWN_NAME} is still held: the controller still leads, or ended without "
            "releasing it; check its logs, and run this command again"
        )

    def _write_newest(self, plan: Callable[[], list[Write]]) -> None:
        """Perform the writes planned from the newest objects. If others write meanwhile, plan the rest again."""
        for _ in range(_ATTEMPTS - 1):
            self.read()
            results = {attempt(self._client, write).result for write in plan()}
            if results <= {"done"}:
                return
        self.read()
        self._write(plan())

    def _write(self, writes: Iterable[Write]) -> None:
        for write in writes:
            outcome = attempt(self._client, write)
            if outcome.result != "done":
                name = write.key.namespaced_name if write.key.namespace else write.key.name
                raise HandoverError(
                    f"{write.key.resource.kind} {name}: {write.purpose}: {outcome.message}; run this command again"
                )
