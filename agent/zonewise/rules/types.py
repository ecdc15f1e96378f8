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
        """Return sets of names."""
        ...

    @property
    def attributes(self) -> Mapping[str, Mapping[str, str]]:
        """Return names with values."""
        ...

    @property
    def instances(self) -> Mapping[str, Sequence[Mapping[str, str]]]:
        """Return lists of things, each with attributes."""
        ...


class FeatureSet(NamedTuple):
    """Raw features as a value."""

    flags: Mapping[str, Collection[str]] = MappingProxyType({})
    attributes: Mapping[str, Mapping[str, str]] = MappingProxyType({})
    instances: Mapping[str, Sequence[Mapping[str, str]]] = MappingProxyType({})


class MatchExpression(NamedTuple):
    """An operator and its operands, for the value of an element, or for the names of elements."""

    op: str
    value: tuple[str, ...] = ()
    type: str = ""
    """Empty, or "version": operands and value are compared as versions, not as whole numbers."""


class FeatureMatcherTerm(NamedTuple):
    """What one feature has to fulfil: all that is there."""

    feature: str
    """domain.feature, in any case."""
    match_expressions: Mapping[str, MatchExpression] | None = None
    """By the name of the element; None where the rule has none, which is not the same as an empty set."""
    match_name: MatchExpression | None = None


FeatureMatcher = tuple[FeatureMatcherTerm, ...]
"""Terms that all have to match."""


class Taint(NamedTuple):
    """A taint of a Node (core/v1)."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        """Return key=value:effect, as kubectl accepts it."""
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


class Rule(NamedTuple):
    """One rule of an object. A rule of a NodeFeatureGroup has no outputs but vars."""

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
    """Why the rule is invalid, and never evaluated; empty for a valid one."""


class RuleObject(NamedTuple):
    """A NodeFeatureRule, or a NodeFeatureGroup."""

    name: str
    """Of a NodeFeatureGroup with a namespace: namespace/name."""
    rules: tuple[Rule, ...]
    kind: str = NODE_FEATURE_RULE


class RuleOutput(NamedTuple):
    """What a rule gives; nothing where it did not match."""

    matched: bool = False
    labels: Mapping[str, str] = _NOTHING
    """Names as the rule has them; a value that begins with "@" is a reference to a feature."""
    annotations: Mapping[str, str] = _NOTHING
    extended_resources: Mapping[str, str] = _NOTHING
    taints: tuple[Taint, ...] = ()
    vars: Mapping[str, str] = _NOTHING


class RuleOutcome(NamedTuple):
    """How the evaluation of one rule ended."""

    object: str
    """The name of the rule's object."""
    rule: str
    matched: bool = False
    error: str = ""
    """Empty, or why the rule has no effect."""
    kind: str = NODE_FEATURE_RULE
    """Of the object."""


class Rejection(NamedTuple):
    """An output that a rule may not set."""

    what: str
    """"label", "annotation", "extended resource" or "taint"."""
    name: str
    reason: str


class Evaluation(NamedTuple):
    """The outputs of all rules, valid and by full name, sorted; equal inputs give equal values."""

    labels: Mapping[str, str] = _NOTHING
    annotations: Mapping[str, str] = _NOTHING
    extended_resources: Mapping[str, str] = _NOTHING
    taints: tuple[Taint, ...] = ()
    vars: Mapping[str, str] = _NOTHING
    """The feature `rule.matched`: labels as written, and variables."""
    outcomes: tuple[RuleOutcome, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    groups: tuple[str, ...] | None = ()
    """Names of the NodeFeatureGroups that the node belongs to; None where the groups are not known."""
