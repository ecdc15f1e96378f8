"""How often predictions of recorded admissions are wrong: ours from reports, and the rules of other schedulers."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.support.fit_nodes import POLICIES
from benchmarks.support.targets import Row
from zonewise.objects.nrt import machine_to_nrt
from zonewise.usage.node_usage import KubeletNotReady, node_usage
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.report.interning import KindInterner
from zonewise_scheduler.admission.report.node_report import read_nrt
from zonewise_scheduler.nodes.noderesourcetopology import filter_node

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
from support.fit_cases import pod_of_case, policies_of_case, state_of_case
from support.kubelet_cases import Json, cases, machine_of_case, report_of_case

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_scheduler.admission.node import NodeState, Policies
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.admission.verdict import Verdict

KUBELET_POLICIES = (*POLICIES, "none")


class Prediction(NamedTuple):
    """The prediction of one source for one case."""

    policy: str
    predicted: bool
    admitted: bool
    """Whether the kubelet would admit the pod."""
    uncertain: bool
    """Whether the source itself marks the prediction as uncertain."""


def recorded() -> list[tuple[NodeState, PodShape]]:
    """Return the nodes and pods of the recorded admissions; none if the data are absent."""
    return [(state_of_case(case), pod_of_case(case)) for case in cases()]


def mispredictions() -> Iterator[Row]:
    """Print the wrong predictions; yield those that have a target."""
    kinds = KindInterner()
    reported = [case for case in cases() if "nodeResourceTopology" in case]
    state = [_ours(case, admit(state_of_case(case), pod_of_case(case))) for case in cases()]
    ours = [_ours(case, _by_report(_our_report(case), case, kinds)) for case in cases()]
    others = [_ours(case, _by_report(case["nodeResourceTopology"], case, kinds)) for case in reported]
    known = [
        _ours(case, _by_report(case["nodeResourceTopology"], case, kinds, policies_of_case(case))) for case in reported
    ]
    _print(
        {
            "ours, from the state": state,
            "ours, from our agent's report": ours,
            "ours, from another agent's report": others,
            "... and the kubelet's configuration": known,
            "scheduler-plugins, from that": [_theirs(case, _upstream(case)) for case in reported],
            "KAI-Scheduler, from that": [_theirs(case, case["kaiRulePortPass"]) for case in reported],
        }
    )
    wrong = sum(prediction.predicted != prediction.admitted for prediction in state)
    yield Row("mistakes from the state", f"{wrong}", "0", wrong == 0)
    for name, guesses in (("our agent's", ours), ("another agent's", others + known)):
        firm = [prediction for prediction in guesses if prediction.policy in {"single-numa-node", "restricted"}]
        rejections = sum(prediction.admitted and not prediction.predicted for prediction in firm)
        yield Row(f"wrong rejections from {name} report", f"{rejections}", "0", rejections == 0)
        unsaid = sum(prediction.predicted != prediction.admitted and not prediction.uncertain for prediction in guesses)
        yield Row("... mistakes without a stated uncertainty", f"{unsaid}")


def _print(sources: dict[str, list[Prediction]]) -> None:
    width = max(map(len, sources))
    print("wrong admissions + wrong rejections / cases")
    print(" " * width, *(f"{policy:>18}" for policy in KUBELET_POLICIES))
    for name, guesses in sources.items():
        print(f"{name:{width}}", *(f"{_cell(guesses, policy):>18}" for policy in KUBELET_POLICIES))
    print()


def _cell(guesses: list[Prediction], policy: str) -> str:
    counts = Counter(
        (prediction.predicted, prediction.admitted) for prediction in guesses if prediction.policy == policy
    )
    return f"{counts[True, False]} + {counts[False, True]} / {counts.total()}"


# --- sources


def _ours(case: Json, verdict: Verdict) -> Prediction:
    return _theirs(case, verdict.admitted)._replace(uncertain=bool(verdict.uncertain))


def _theirs(case: Json, passes: bool) -> Prediction:
    return Prediction(case["kubelet"]["topologyManagerPolicy"], passes, case["expect"]["admit"], uncertain=False)


def _by_report(nrt: Json, case: Json, kinds: KindInterner, policies: Policies | None = None) -> Verdict:
    state = read_nrt(nrt, kinds, policies=policies).state
    assert state is not None
    return admit(state, pod_of_case(case))


def _our_report(case: Json) -> Json:
    machine, report = machine_of_case(case), report_of_case(case)
    usage = node_usage(machine, report)
    assert not isinstance(usage, KubeletNotReady)
    return machine_to_nrt(machine, "n", usage, report.config)


def _upstream(case: Json) -> bool:
    zones = case["nodeResourceTopology"]["zones"]
    has = {resource["name"] for zone in zones for resource in zone["resources"]} | set(case["machine"]["devices"])
    return filter_node(case["nodeResourceTopology"], case["pod"], has).passes
