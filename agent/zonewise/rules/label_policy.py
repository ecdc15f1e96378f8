"""Which labels rules may set on this cluster, according to three settings of NFD's master.

The order is that of pkg/nfd-master/nfd-master.go, filterFeatureLabel: a namespace that is reserved or denied is allowed
if it is an extra namespace. NFD does not check the value of such a label. It is checked here, because an API server
rejects all labels of a write for one invalid value.
"""

from __future__ import annotations

from typing import NamedTuple, cast

from zonewise.rules.regexps import compile_regexp, encoded
from zonewise.rules.types import RuleError
from zonewise.rules.validation import label_error


class LabelPolicy(NamedTuple):
    """The labels that the cluster's administrator allows in addition to, or instead of, those that every
    rule may set.
    """

    extra_namespaces: tuple[str, ...] = ()
    """extraLabelNs: allowed even if they are reserved or denied."""
    denied_namespaces: tuple[str, ...] = ()
    """denyLabelNs: whole names, or suffixes of names after a "*"."""
    allowed_names: str = ""
    """labelWhiteList: a regular expression that names without their namespace must match; "" for all."""

    def error(self, name: str, value: str) -> str:
        """Return why a label may not be set; empty if it may. Raises RuleError for an invalid expression."""
        namespace, _, base = name.partition("/")
        is_extra = namespace in self.extra_namespaces
        if reason := label_error(name, value, is_open=is_extra):
            return reason
        if self._denies(namespace) and not is_extra:
            return f"the namespace {namespace} is denied by rules.denyLabelNs"
        if self.allowed_names and compile_regexp(self.allowed_names).search(encoded(base)) is None:
            return f"its name does not match rules.labelWhiteList, {self.allowed_names[:100]!r}"
        return ""

    def _denies(self, namespace: str) -> bool:
        return any(
            namespace.endswith(denied.lstrip("*")) if denied.startswith("*") else namespace == denied
            for denied in self.denied_namespaces
        )


DEFAULT_POLICY = LabelPolicy()


def namespaces(value: object) -> tuple[str, ...]:
    """Accept namespaces of labels, as a list or as text separated by commas."""
    items = cast("list[object]", value) if isinstance(value, list) else str(value).split(",")
    if not isinstance(value, str | list) or not all(isinstance(item, str) for item in items):
        raise ValueError("must be label namespaces, separated by commas")
    names = tuple(name for item in items if (name := str(item).strip()))
    for name in names:
        if "/" in name or " " in name:
            raise ValueError(f"must be label namespaces, such as example.com: {name!r} is not one")
    return names


def expression(value: object) -> str:
    """Accept an RE2 regular expression."""
    if not isinstance(value, str):
        raise ValueError("must be a regular expression")
    try:
        compile_regexp(value)
    except RuleError as error:
        raise ValueError(f"must be a regular expression: {error}") from error
    return value
