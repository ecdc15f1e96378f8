"""Rules as values. Names are those of NFD's api/nfd/v1alpha1/types.go, in snake_case."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

NODE_FEATURE_RULE, NODE_FEATURE_GROUP = "NodeFeatureRule", "NodeFeatureGroup"

_NOTHING: Mapping[str, str] = MappingProxyType({})


class RuleError(Exception):
    """A rule cannot be evaluated; the message names the construct, and the caller adds the rule."""


class RawFeatures(Protocol):
    """The raw features of a node by name; a feature may have several types (a zonewise.objects Features)."""

    @property
    def flags(self) -> Mapping[str, Collection[str]]:
        """Return the flag features: sets of names."""
        ...

    @property
    def attributes(self) -> Mapping[str, Mapping[str, str]]:
        """Return the attribute features: names with values."""
        ...

    @property
    def instances(self) -> Mapping[str, Sequence[Mapping[str, str]]]:
        """Return the instance features: lists of things, each with attributes."""
        ...


class FeatureSet(NamedTuple):
    """Raw features as a value."""

    flags: Mapping[str, Collection[str]] = MappingProxyType({})
    attributes: Mapping[str, Mapping[str, str]] = MappingProxyType({})
    instances: Mapping[str, Sequence[Mapping[str, str]]] = MappingProxyType({})


class MatchExpression(NamedTuple):
    """An operator with its operands, for the value or the name of an element."""

    op: str
    value: tuple[str, ...] = ()
    type: str = ""
    """Empty, or "version": operands and value are then compared as versions, not as whole numbers."""


class FeatureMatcherTerm(NamedTuple):
    """The conditions for one feature, all of which must hold."""

    feature: str
    """domain.feature, in any case."""
    match_expressions: Mapping[str, MatchExpression] | None = None
    """Expressions by name of the element; None if the rule has none, which differs from an empty set."""
    match_name: MatchExpression | None = None


FeatureMatcher = tuple[FeatureMatcherTerm, ...]
"""Terms that must all match."""


class Taint(NamedTuple):
    """A taint of a Node (core/v1)."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        """Return key=value:effect, as kubectl accepts it."""
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


class Rule(NamedTuple):
    """One rule of an object. A rule of a NodeFeatureGroup has no outputs except vars."""

    name: str
    labels: Mapping[str, str] = _NOTHING
    labels_template: str = ""
    annotations: Mapping[str, str] = _NOTHING
    vars: Mapping[str, str] = _NOTHING
    vars_template: str = ""
    taints: tuple[Taint, ...] = ()
    extended_resources: Mapping[str, str] = _NOTHING
    match_features: FeatureMatcher = ()
    match_any: tuple[FeatureMatcher, ...] = ()
    error: str = ""
    """Why the rule is invalid and never evaluated; empty for a valid rule."""


class RuleObject(NamedTuple):
    """A NodeFeatureRule, or a NodeFeatureGroup."""

    name: str
    """Name of the object; namespace/name for a NodeFeatureGroup with a namespace."""
    rules: tuple[Rule, ...]
    kind: str = NODE_FEATURE_RULE


class RuleOutput(NamedTuple):
    """The outputs of a rule; empty if it did not match."""

    matched: bool = False
    labels: Mapping[str, str] = _NOTHING
    """Labels with names as in the rule; a value that begins with "@" references a feature."""
    annotations: Mapping[str, str] = _NOTHING
    extended_resources: Mapping[str, str] = _NOTHING
    taints: tuple[Taint, ...] = ()
    vars: Mapping[str, str] = _NOTHING


class RuleOutcome(NamedTuple):
    """The outcome of the evaluation of one rule."""

    object: str
    """The name of the rule's object."""
    rule: str
    matched: bool = False
    error: str = ""
    """Why the rule has no effect; empty if it has one."""
    kind: str = NODE_FEATURE_RULE
    """The kind of its object."""


class Rejection(NamedTuple):
    """An output that a rule may not set."""

    what: str
    """"label", "annotation", "extended resource" or "taint"."""
    name: str
    reason: str


class Evaluation(NamedTuple):
    """The outputs of all rules: valid, by full name, sorted. Equal inputs give equal values."""

    labels: Mapping[str, str] = _NOTHING
    annotations: Mapping[str, str] = _NOTHING
    extended_resources: Mapping[str, str] = _NOTHING
    taints: tuple[Taint, ...] = ()
    vars: Mapping[str, str] = _NOTHING
    """The elements of the feature `rule.matched`: labels as written, and variables."""
    outcomes: tuple[RuleOutcome, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    groups: tuple[str, ...] | None = ()
    """Names of the NodeFeatureGroups that the node belongs to; None if the groups are not known."""
