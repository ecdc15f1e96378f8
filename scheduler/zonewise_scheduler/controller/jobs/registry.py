"""The adapters of all kinds of jobs. A new kind needs only one new module.

Each module of this package with an `ADAPTER` is an adapter. A module for several similar kinds has `ADAPTERS` instead.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import TYPE_CHECKING, cast

from zonewise_common.service.options import SettingsError
from zonewise_scheduler.controller import jobs
from zonewise_scheduler.controller.cluster_cache import owner_uid, uid_of
from zonewise_scheduler.controller.jobs.configured_job import ConfiguredJob
from zonewise_scheduler.controller.jobs.interface import ParentAdapter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import ModuleType

    from zonewise_common.kube.resources import Resource
    from zonewise_scheduler.controller.jobs.interface import JobAdapter
    from zonewise_scheduler.controller.jobs.job_kind import JobKind
    from zonewise_scheduler.controller.types import Json, ObjectKey


@cache
def discover_adapters() -> tuple[JobAdapter, ...]:
    """Return the adapters of this package, sorted by the names of their modules."""
    names = sorted(module.name for module in pkgutil.iter_modules(jobs.__path__))
    modules = [importlib.import_module(f"{jobs.__name__}.{name}") for name in names]
    return tuple(adapter for module in modules for adapter in _adapters_of(module))


def adapters_by_kind(configured: Iterable[JobAdapter] = ()) -> dict[tuple[str, str], JobAdapter]:
    """Return the adapters by API group and kind. Raises ValueError if one kind has two adapters.

    `configured`: adapters of the kinds that the settings describe.
    """
    adapters: dict[tuple[str, str], JobAdapter] = {}
    for adapter in (*discover_adapters(), *configured):
        key = group_kind(adapter.resource)
        if key in adapters:
            raise ValueError(f"kind {key[1]} of group {key[0]!r} has two adapters")
        adapters[key] = adapter
    return adapters


def adapters_of_settings(kinds: Iterable[JobKind]) -> dict[tuple[str, str], JobAdapter]:
    """Return all adapters, including those of the settings. Raises SettingsError if one kind has two adapters."""
    try:
        return adapters_by_kind(map(ConfiguredJob, kinds))
    except ValueError as error:
        raise SettingsError(f"jobKinds: {error}") from error


def adapter_of_job(adapter: JobAdapter, job: Json, get: Callable[[ObjectKey], Json | None]) -> JobAdapter | None:
    """Return the adapter of one job; None: the object that determines its pods does not exist yet.

    `get`: returns an observed object. A job that has ended does not need that object.
    """
    if not isinstance(adapter, ParentAdapter):
        return adapter
    child = get(adapter.child_key(job))
    if child is not None and owner_uid(child) == uid_of(job):
        return adapter.with_child(child)
    return adapter if adapter.finished(job) is not None else None


def group_kind(resource: Resource) -> tuple[str, str]:
    """Return the API group and the kind of a resource."""
    return resource.group, resource.kind


def _adapters_of(module: ModuleType) -> tuple[JobAdapter, ...]:
    if hasattr(module, "ADAPTER"):
        return (cast("JobAdapter", module.ADAPTER),)
    return cast("tuple[JobAdapter, ...]", getattr(module, "ADAPTERS", ()))
