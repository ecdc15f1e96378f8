"""`zonewise foretell`: what a node's kubelet would answer to a pod, and what it would give it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, cast

from zonewise_common.cli.command import Command, CommandError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.admission.verdict import ContainerAssignment, Verdict

Json = dict[str, Any]

_REFUSED = 1
_MOST = 1000
"""Pods tried one after another, at most."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    parser.epilog = (
        "A report is what `kubectl get noderesourcetopologies NODE -o yaml` prints, or on a node `zonewise agent "
        "--oneshot --dry-run`. Status 0: some node would take the pod; 1: none would."
    )
    add("pod", metavar="POD", help='a Pod, or anything with a pod template (Job, Deployment), as YAML or JSON; "-" is '
        "standard input")  # fmt: skip
    add("--report", metavar="FILE", action="append", required=True, dest="reports",
        help="a NodeResourceTopology, or a list of them; may be given several times")  # fmt: skip


def run(arguments: Namespace) -> int:
    """Print a verdict for each node. Raises CommandError."""
    from zonewise_scheduler.admission.report.interning import KindInterner
    from zonewise_scheduler.admission.report.node_report import read_nrt

    shape = _shape(arguments.pod)
    kinds = KindInterner()
    taken = False
    for path in arguments.reports:
        for made in _documents(path):
            report = read_nrt(made, kinds)
            for problem in report.problems:
                sys.stderr.write(f"{path}: {problem}\n")
            if report.state is None:
                raise CommandError(f"{path}: no NodeResourceTopology with zones that can be used")
            admitted, lines = _answer(report.node, report.state, shape)
            taken = taken or admitted
            sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0 if taken else _REFUSED


COMMAND = Command("say what a node's kubelet would answer to a pod", add_arguments, run)


def _answer(node: str, state: NodeState, shape: PodShape) -> tuple[bool, list[str]]:
    from zonewise_scheduler.admission import admit, explain_rejection

    verdict = admit(state, shape)
    doubts = [f"  not sure: {doubt}" for doubt in verdict.uncertain]
    if not verdict.admitted:
        reason = f"{verdict.reason}: " if verdict.reason else ""
        return False, [f"{node} would refuse it: {reason}{explain_rejection(state, shape, verdict)}", *doubts]
    more = _more(verdict, shape)
    return True, [f"{node} would take it, and {more} more like it", *map(_given, verdict.assignments), *doubts]


def _more(verdict: Verdict, shape: PodShape) -> str:
    """Return how many more such pods the node would take."""
    from zonewise_scheduler.admission import admit

    for count in range(_MOST):
        following = admit(verdict.after, shape) if verdict.after is not None else verdict
        if not following.admitted or following.after == verdict.after:
            return "any number" if following.admitted else str(count)
        verdict = following
    return f"at least {_MOST}"


def _given(given: ContainerAssignment) -> str:
    from zonewise_common.k8s.cpuset import CpuSet

    parts = [f"CPUs {CpuSet.from_bits(given.cpus)}"] if given.cpus else []
    parts += [f"{share.size / (1 << 30):g} GiB {share.type} of {_zones(share.zones)}" for share in given.memory]
    parts += [f"{share.number} {share.resource} of {_zones(share.zones)}" for share in given.devices]
    return f"  {given.container}: {', '.join(parts)}"


def _zones(bits: int) -> str:
    from zonewise_common.k8s.cpuset import CpuSet

    if not bits:
        return "no known zone"
    zones = CpuSet.from_bits(bits)
    return f"{'zone' if len(zones) == 1 else 'zones'} {zones}"


def _shape(path: str) -> PodShape:
    from zonewise_common.k8s.fields import FieldError
    from zonewise_scheduler.admission.pod_spec import read_pod

    documents = list(_documents(path))
    if len(documents) != 1:
        raise CommandError(f"{path}: holds {len(documents)} objects, not one pod")
    try:
        return read_pod(_pod(documents[0], path))
    except FieldError as error:
        raise CommandError(f"{path}: {error}") from error


def _pod(made: Json, path: str) -> Json:
    """Return the pod of an object, or its pod template, wherever that is."""
    while made.get("kind", "Pod") != "Pod" or "containers" not in (made.get("spec") or {}):
        spec: Json = made.get("spec") or {}
        inner = spec.get("template") or spec.get("jobTemplate")
        if not isinstance(inner, dict):
            raise CommandError(f"{path}: {made.get('kind', 'it')} is no Pod and has no pod template")
        made = {"kind": "Pod", **cast("Json", inner)} if "template" in spec else cast("Json", inner)
    return made


def _documents(path: str) -> Iterator[Json]:
    import yaml

    try:
        if path == "-":
            content = sys.stdin.read()
        else:
            with open(path, encoding="utf-8") as file:
                content = file.read()
        for document in yaml.safe_load_all(content):
            yield from _items(cast("object", document), path)
    except OSError as error:
        raise CommandError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CommandError(f"{path}: is no text: {error}") from error
    except yaml.YAMLError as error:
        raise CommandError(f"{path}: no YAML: {' '.join(str(error).split())}") from error


def _items(document: object, path: str) -> Iterator[Json]:
    if document is None:
        return
    if not isinstance(document, dict):
        raise CommandError(f"{path}: must hold objects, not {type(document).__name__}")
    made = cast("Json", document)
    items = made.get("items")
    if isinstance(items, list):
        for item in cast("list[object]", items):
            yield from _items(item, path)
    else:
        yield made
