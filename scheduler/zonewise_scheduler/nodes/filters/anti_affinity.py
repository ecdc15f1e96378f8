"""Required anti-affinity of pods, and the other pods that it may keep away from some nodes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.k8s.fields import FieldError, object_in, objects_in, string_in, string_map_in, strings_in
from zonewise_common.k8s.labels import Requirement, read_requirements, selects

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_common.k8s.tolerant import Json


class AntiAffinityTerm(NamedTuple):
    """A required anti-affinity term without its topology key; it matches pods that it may keep off some nodes."""

    namespaces: tuple[str, ...] | None
    """Namespaces that the term selects; None: all."""
    selector: tuple[Requirement, ...]

    def may_exclude(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Return whether the term may keep a pod away from some nodes."""
        return (self.namespaces is None or namespace in self.namespaces) and selects(self.selector, labels)


class AntiAffinityIndex:
    """The required anti-affinity of all pods."""

    def __init__(self) -> None:
        self._terms: dict[str, tuple[AntiAffinityTerm, ...]] = {}
        self._term_counts: Counter[AntiAffinityTerm] = Counter()

    def __bool__(self) -> bool:
        """Return whether any pod has such a term."""
        return bool(self._term_counts)

    def set_terms(self, pod: str, terms: tuple[AntiAffinityTerm, ...]) -> bool:
        """Set the terms of a pod by UID or name (empty: none, or the pod is gone); return whether they change."""
        old = self._terms.pop(pod, ())
        if terms:
            self._terms[pod] = terms
        if old == terms:
            return False
        self._term_counts.update(terms)
        for term in old:
            self._term_counts[term] -= 1
            if not self._term_counts[term]:
                del self._term_counts[term]
        return True

    def may_exclude(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Return whether another pod may keep a pod away from some nodes."""
        return any(term.may_exclude(namespace, labels) for term in self._term_counts)


def read_anti_affinity(pod: Mapping[str, Any]) -> tuple[AntiAffinityTerm, ...]:
    """Return the required anti-affinity of a v1.Pod; a term that cannot be read excludes every pod.

    A namespace selector is assumed to select all namespaces. Source: pkg/scheduler/framework/types.go
    GetPodAntiAffinityTerms.
    """
    try:
        affinity = object_in(object_in(pod, "spec", ""), "affinity", "spec.")
        anti_affinity = object_in(affinity, "podAntiAffinity", "spec.affinity.")
        terms = objects_in(anti_affinity, "requiredDuringSchedulingIgnoredDuringExecution", "spec.affinity.")
        own = string_in(object_in(pod, "metadata", ""), "namespace", "metadata.")
        return tuple(_term(term, own) for term in terms)
    except FieldError:
        return (_EVERY_POD,)


_EVERY_POD = AntiAffinityTerm(None, ())


def _term(term: Json, own_namespace: str) -> AntiAffinityTerm:
    selector = object_in(term, "labelSelector", "")
    if term.get("matchLabelKeys") or term.get("mismatchLabelKeys"):
        selector = {}  # the values come from the pod's labels: to be safe, any value matches
    labels = tuple(Requirement(key, "In", (value,)) for key, value in string_map_in(selector, "matchLabels", ""))
    requirements = labels + read_requirements(selector, "matchExpressions", "")
    if not all(requirement.is_valid() for requirement in requirements):
        return _EVERY_POD
    if term.get("namespaceSelector") is not None:
        return AntiAffinityTerm(None, requirements)
    return AntiAffinityTerm(strings_in(term, "namespaces", "") or (own_namespace,), requirements)
