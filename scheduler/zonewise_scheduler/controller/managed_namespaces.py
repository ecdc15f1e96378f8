"""The namespaces whose jobs are queued (pkg/controller/jobframework/reconciler.go managedJobsNamespaceSelector).

Objects of other namespaces are never held, even if they name a queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import FieldReader
from zonewise_common.k8s.labels import Requirement, read_label_selector, selects
from zonewise_common.kube.resources import NAMESPACES
from zonewise_scheduler.controller.cluster_cache import observed_labels

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_common.kube.resources import Resource
    from zonewise_scheduler.controller.types import Json

MANAGED_NAMESPACES_SETTING = "managedJobsNamespaceSelector"
_NAME_LABEL = "kubernetes.io/metadata.name"
"""Label with the name of a namespace, which the API server sets."""


def parse_managed_namespaces(value: object) -> tuple[Requirement, ...]:
    """Return the requirements of the setting, a metav1.LabelSelector. Raises ValueError with each problem."""
    problems: list[str] = []
    reader = FieldReader({MANAGED_NAMESPACES_SETTING: value}, "", problems)
    requirements = read_label_selector(reader.child(MANAGED_NAMESPACES_SETTING))
    if problems or requirements is None:
        raise ValueError("; ".join(problems))
    return requirements


def all_but(*namespaces: str) -> tuple[Requirement, ...]:
    """Return the requirements that all namespaces but these meet."""
    return (Requirement(_NAME_LABEL, "NotIn", namespaces),)


def is_managed(
    namespace: str, requirements: tuple[Requirement, ...], find: Callable[[Resource, str, str], Json | None]
) -> bool:
    """Return whether the jobs of a namespace are queued; one that is not observed yet counts with its name only.

    `find`: returns a Namespace.
    """
    if not requirements:
        return True
    obj = find(NAMESPACES, "", namespace)
    return selects(requirements, {_NAME_LABEL: namespace, **({} if obj is None else observed_labels(obj))})
