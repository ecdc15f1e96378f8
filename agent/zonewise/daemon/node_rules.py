"""The cluster's rules and groups on this node, evaluated only when they, the machine or feature files change."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise.nfd.types import NO_LOCAL_FEATURES
from zonewise.nfd.worker_config import DEFAULT_WORKER_CONFIG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zonewise.machine.model.machine import Machine
    from zonewise.nfd.types import LocalFeatures
    from zonewise.nfd.worker_config import WorkerConfig
    from zonewise.rules.types import Evaluation, RuleObject

UNKNOWN = "labels are delayed until the NodeFeatureRules are known"


class RuleState(NamedTuple):
    """The current output of the rules."""

    evaluation: Evaluation | None = None
    """None while the rules are unknown: nothing that they set before may then be removed."""
    problems: tuple[str, ...] = ()


class _Inputs(NamedTuple):
    """The inputs of an evaluation."""

    machine: Machine
    local: LocalFeatures
    worker: WorkerConfig
    rules: tuple[RuleObject, ...]
    groups: tuple[RuleObject, ...] | None


class NodeRules:
    """Evaluates rules over all raw features of one node. Not thread-safe."""

    def __init__(
        self,
        node: str,
        rules: Callable[[], tuple[RuleObject, ...] | None],
        problem: Callable[[], str] = str,
        *,
        groups: Callable[[], tuple[RuleObject, ...] | None] = tuple,
        policy: tuple[tuple[str, ...], tuple[str, ...], str] = ((), (), ""),
    ) -> None:
        """Set `rules`, which returns the rules, None while they are unknown, and `problem`, which returns why they are
        unknown.

        `groups` returns the NodeFeatureGroups, None while they are unknown. `policy`: the fields of a LabelPolicy.
        """
        self._policy = policy
        self._node = node
        self._rules = rules
        self._groups = groups
        self._problem = problem
        self._inputs: _Inputs | None = None
        self._state = RuleState()

    def state(
        self, machine: Machine, local: LocalFeatures | None, worker: WorkerConfig = DEFAULT_WORKER_CONFIG
    ) -> RuleState:
        """Return the output of the rules on a machine with the given content of its feature files.

        Rules do not see features that the worker's configuration disables or does not publish.
        """
        rules = self._rules()
        if rules is None:
            reason = self._problem()
            return RuleState(None, (f"{UNKNOWN}: {reason}" if reason else UNKNOWN,))
        before, inputs = self._inputs, _Inputs(machine, local or NO_LOCAL_FEATURES, worker, rules, self._groups())
        if before is None or before.machine is not machine or before[1:] != inputs[1:]:
            self._state, self._inputs = self._evaluate(inputs), inputs
        return self._state

    def _evaluate(self, inputs: _Inputs) -> RuleState:
        from zonewise.rules.types import Evaluation

        machine, local, worker, rules, groups = inputs
        if not rules and not groups:
            return RuleState(Evaluation(groups=None if groups is None else ()))
        # imported with the first rule: an agent without rules does not pay for them
        from zonewise.objects.feature_groups import FEATURE_GROUPS
        from zonewise.objects.features import node_features, published_features
        from zonewise.rules.evaluation import evaluate
        from zonewise.rules.label_policy import LabelPolicy

        features = published_features(node_features(machine, FEATURE_GROUPS, local, worker, self._node), worker)
        objects = (*rules, *(groups or ()))
        evaluation = evaluate(objects, features, LabelPolicy(*self._policy))
        if groups is None:
            evaluation = evaluation._replace(groups=None)
        return RuleState(evaluation, tuple(_problems(evaluation)))


def _problems(evaluation: Evaluation) -> Iterator[str]:
    for outcome in evaluation.outcomes:
        if outcome.error:
            yield f"{outcome.kind} {outcome.object}: rule {outcome.rule!r} failed: {outcome.error}"
    for rejection in evaluation.rejections:
        yield f"the {rejection.what} {rejection.name[:300]} of NodeFeatureRules is not set: {rejection.reason}"
