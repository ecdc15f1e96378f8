"""The writes for AdmissionChecks with ProvisioningRequests, and for Workloads with such checks, as objects change.

Workloads are checked when they or their created objects change, and when checks, configurations or flavors change.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import FieldError
from zonewise_common.kube.resources import ADMISSION_CHECKS
from zonewise_scheduler.controller.admissionchecks.active_condition import active_condition_write
from zonewise_scheduler.controller.admissionchecks.provisioning import (
    ProvisioningContext,
    ProvisioningState,
    next_provisioning_writes,
)
from zonewise_scheduler.controller.admissionchecks.provisioning_config import config_of_check, is_provisioning_check
from zonewise_scheduler.controller.admissionchecks.provisioning_objects import ProvisioningObjects
from zonewise_scheduler.controller.admissionchecks.provisioning_request import POD_TEMPLATES, PROVISIONING_REQUESTS
from zonewise_scheduler.controller.cluster_cache import uid_of
from zonewise_scheduler.controller.types import Verb
from zonewise_scheduler.controller.workloads.admission_checks import checks_of
from zonewise_scheduler.quota.api.pod_defaults import with_pod_defaults

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zonewise_scheduler.controller.admissionchecks.provisioning_config import ProvisioningConfig
    from zonewise_scheduler.controller.planning.configuration import ConfigurationObjects
    from zonewise_scheduler.controller.types import Json, ObjectKey, Write
    from zonewise_scheduler.controller.writing.outcome import Outcome

log = logging.getLogger(__name__)

WATCHED = (PROVISIONING_REQUESTS, POD_TEMPLATES)
"""Kinds of the objects that are created for Workloads."""


class ProvisioningReconciler:
    """Keeps the Workloads and AdmissionChecks to check, and yields their next writes."""

    def __init__(self, workloads: Mapping[str, Json], configuration: ConfigurationObjects) -> None:
        """Set the Workloads, which map each key (namespace/name) to the newest state."""
        self._workloads = workloads
        self._configuration = configuration
        self._objects = ProvisioningObjects()
        self._seen: tuple[object, ...] = ()
        """Checks, configurations and flavors at the time of the last writes."""
        self._configs: dict[str, ProvisioningConfig | None] = {}
        """Configurations by name of the check; None: the check is not active."""
        self._dirty: dict[str, None] = {}
        self._dirty_checks: dict[str, None] = {}
        self._problems: dict[str, str] = {}
        """Why the last creation of an object was rejected, by key of the Workload."""

    # --- inputs

    def observe(self, key: ObjectKey, obj: Json | None) -> None:
        """Record a ProvisioningRequest or a PodTemplate; None: it was deleted."""
        if workload := self._objects.set(key, obj):
            self._dirty[workload] = None
        elif obj is None:
            self._mark_namespace(key.namespace)

    def mark_workloads(self, keys: Iterable[str]) -> None:
        """Check these Workloads in the next step."""
        self._dirty.update(dict.fromkeys(keys))

    def mark_dirty(self, key: ObjectKey) -> None:
        """Check an AdmissionCheck, or the Workload of an object, in the next step."""
        if key.resource == ADMISSION_CHECKS:
            self._dirty_checks[key.name] = None
        elif workload := self._objects.workload_of(key):
            self._dirty[workload] = None
        elif not self._objects.knows(key):
            self._mark_namespace(key.namespace)

    def restart(self) -> None:
        """Check all Workloads and AdmissionChecks in the next step."""
        self._seen = ()

    def forget_marks(self) -> None:
        """Drop pending checks, because this replica does not lead."""
        self._dirty.clear()
        self._dirty_checks.clear()

    def end_write(self, write: Write, outcome: Outcome) -> None:
        """Record the outcome of a write of this class."""
        if write.verb is Verb.CREATE and write.key.resource in WATCHED:
            if outcome.result == "rejected":
                self._problems[write.workload] = f"{write.key.resource.kind}: {outcome.message}"
            else:
                self._problems.pop(write.workload, None)

    # --- outputs

    def writes(self, now: float) -> Iterator[Write]:
        """Yield the next writes, at most one per object."""
        self._read_configuration()
        checks, self._dirty_checks = self._dirty_checks, {}
        for name in checks:
            check = self._configuration.admission_checks.get(name)
            write = None if check is None else active_condition_write(check, self._configuration.provisioning, now)
            if write is not None:
                yield write
        dirty, self._dirty = self._dirty, {}
        context = ProvisioningContext(self._configs, self._configuration.flavors, now)
        for key in dirty:
            yield from self._workload_writes(key, context)

    def _workload_writes(self, key: str, context: ProvisioningContext) -> list[Write]:
        workload = self._workloads.get(key)
        requests: Mapping[str, Json] = {} if workload is None else self._objects.requests_of(uid_of(workload))
        if workload is None or not (requests or self._has_check(workload)):
            self._problems.pop(key, None)
            return []
        templates = self._objects.pod_templates(workload["metadata"]["namespace"])
        try:
            completed = with_pod_defaults(workload, self._configuration.pod_defaults)  # nodes must fit complete pods
            state = ProvisioningState(completed, requests, templates, self._problems.get(key, ""))
            return next_provisioning_writes(state, context)
        except FieldError as error:
            log.warning("workload=%s no ProvisioningRequest: %s", key, error)
        except Exception:  # a defect that one Workload reveals must not block the writes of others
            log.exception("workload=%s the next write cannot be computed", key)
        return []

    def _has_check(self, workload: Json) -> bool:
        return bool(self._configs) and any(check.get("name") in self._configs for check in checks_of(workload))

    def _mark_namespace(self, namespace: str) -> None:
        """Check all Workloads of a namespace, because the Workload of an object is unknown."""
        self.mark_workloads(name for name in self._workloads if name.startswith(f"{namespace}/"))

    def _read_configuration(self) -> None:
        objects = self._configuration
        seen = (objects.admission_checks, objects.provisioning, objects.flavors)
        if len(self._seen) == len(seen) and all(map(_is_same, self._seen, seen)):
            return
        self._seen = seen
        checks = {name: check for name, check in objects.admission_checks.items() if is_provisioning_check(check)}
        self._configs = {name: _config(check, objects.provisioning) for name, check in checks.items()}
        self._dirty_checks.update(dict.fromkeys(objects.admission_checks))
        self.mark_workloads(self._workloads)


def _config(check: Json, configs: Mapping[str, Json]) -> ProvisioningConfig | None:
    try:
        return config_of_check(check, configs)
    except ValueError:  # the condition Active of the check shows why
        return None


def _is_same(one: object, other: object) -> bool:
    return one is other
