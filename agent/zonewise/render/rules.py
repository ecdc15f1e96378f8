"""The explanation of rules as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.rules.types import NODE_FEATURE_GROUP
from zonewise_common.cli.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zonewise.rules.explanation import Explanation, MatcherExplanation, RuleExplanation, TermExplanation
    from zonewise.rules.types import Evaluation

_YES, _NO = "yes", "no "


def render_explanation(explanation: Explanation) -> str:
    """Return each rule with its terms, then the output of all rules; control characters are made printable."""
    lines = [line for rule in explanation.rules for line in _rule_lines(rule)]
    return "\n".join(map(printable, [*lines, *_output_lines(explanation.evaluation)])) + "\n"


def _rule_lines(rule: RuleExplanation) -> Iterator[str]:
    outcome = rule.outcome
    verdict = "failed" if outcome.error else "matches" if outcome.matched else "does not match"
    yield f"{outcome.kind} {outcome.object}: rule {outcome.rule!r} {verdict}"
    if outcome.error:
        yield f"  error: {outcome.error}"
    if not rule.matchers and not outcome.error:
        yield "  it has no terms"
    for matcher in rule.matchers:
        yield from _matcher_lines(matcher)
    yield ""


def _matcher_lines(matcher: MatcherExplanation) -> Iterator[str]:
    yield f"  {_mark(matched=matcher.matched)} {matcher.name}"
    for term in matcher.terms:
        yield from _term_lines(term)


def _term_lines(term: TermExplanation) -> Iterator[str]:
    yield f"    {_mark(matched=term.matched)} {term.feature}: {term.detail}"
    for expression in term.expressions:
        yield f"      {_mark(matched=expression.matched)} {expression.text}: {expression.detail}"


def _mark(*, matched: bool) -> str:
    return _YES if matched else _NO


def _output_lines(evaluation: Evaluation) -> Iterator[str]:
    yield from _section("labels", evaluation.labels)
    yield from _section("annotations", evaluation.annotations)
    yield from _section("extended resources", evaluation.extended_resources)
    yield from _section("taints, where they are enabled", {str(taint): "" for taint in evaluation.taints})
    yield from _section(f"member of {NODE_FEATURE_GROUP}s", dict.fromkeys(evaluation.groups or (), ""))
    rejected = {f"{one.what} {one.name}": one.reason for one in evaluation.rejections}
    yield from _section("rejected", rejected, ": ")


def _section(title: str, entries: Mapping[str, str], separator: str = "=") -> Iterator[str]:
    if entries:
        yield f"{title}:"
        yield from (f"  {name}{separator if value else ''}{value}" for name, value in entries.items())
