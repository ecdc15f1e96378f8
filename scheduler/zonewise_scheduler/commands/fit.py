"""`zonewise fit`: predicts whether the kubelet of a node would admit a pod, and what it would allocate."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, cast

from zonewise_common.cli.command import Command, CommandError
from zonewise_common.cli.output import STANDARD_OUTPUT, write

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterable, Iterator

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.admission.verdict import ContainerAssignment, Verdict
    from zonewise_scheduler.nodes.node.node_info import NodeInfo

Json = dict[str, Any]

_NO_NODE_FITS = 1
_MAX_PODS = 1000
"""Maximum number of pods admitted one after another."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    parser.epilog = (
        "A report is the output of `kubectl get noderesourcetopologies/NODE nodes/NODE -o yaml`, or, on a node, of "
        "`zonewise agent --oneshot --dry-run`. The Node contains the kubelet's release and the number of unhealthy "
        "devices. Status 0: at least one node would admit the pod; 1: no node would; 2: a file or an argument "
        "cannot be used."
    )
    add("pod", metavar="POD", help='Pod, or an object with a pod template (Job, Deployment), as YAML or JSON ("-": '
        "standard input)")  # fmt: skip
    add("--report", metavar="FILE", action="append", required=True, dest="reports",
        help="NodeResourceTopology and preferably its Node, or a list of them; repeat the option for more "
        "files")  # fmt: skip


def run(arguments: Namespace) -> int:
    """Print the predicted verdict of each node. Raises CommandError."""
    from zonewise_scheduler.admission.report.interning import KindInterner
    from zonewise_scheduler.admission.report.node_facts import with_node_facts
    from zonewise_scheduler.admission.report.node_report import read_nrt
    from zonewise_scheduler.nodes.node.node_info import kubelet_facts

    shape = _read_shape(arguments.pod)
    objects = [(path, obj) for path in arguments.reports for obj in _read_objects(path)]
    nodes = _read_nodes(objects)
    reports = [(path, obj) for path, obj in objects if not _is_node(obj)]
    if not reports:
        raise CommandError(f"{arguments.reports[0]}: contains no NodeResourceTopology")
    kinds = KindInterner()
    fits = False
    for path, nrt in reports:
        report = read_nrt(nrt, kinds)
        for problem in report.problems:
            sys.stderr.write(f"{path}: {problem}\n")
        if report.state is None:
            raise CommandError(
                f"{path}: no usable zones: the object must be a NodeResourceTopology that an agent wrote; "
                "`zonewise show -o nrt` does not know what is available"
            )
        node = nodes.get(report.node)
        state = with_node_facts(report.state, kubelet_facts(node), kinds)
        admitted, lines = _verdict_lines(report.node, state, shape)
        lines += _ignored_resources(node, state, shape) if admitted else ()
        lines += _release_doubts(None if node is None else node.release, state, shape)
        fits = fits or admitted
        write("".join(f"{line}\n" for line in lines), STANDARD_OUTPUT)
    return 0 if fits else _NO_NODE_FITS


def _read_nodes(objects: Iterable[tuple[str, Json]]) -> dict[str, NodeInfo]:
    """Return the Nodes among objects by name; each object comes with its file. Raises CommandError."""
    from zonewise_common.k8s.fields import FieldError
    from zonewise_scheduler.nodes.node.node_info import read_node_info

    nodes: dict[str, NodeInfo] = {}
    for path, obj in objects:
        if _is_node(obj):
            try:
                node = read_node_info(obj)
            except FieldError as error:
                raise CommandError(f"{path}: Node: {error}") from error
            nodes[node.name] = node
    return nodes


def _is_node(obj: Json) -> bool:
    return obj.get("kind") == "Node"


def _ignored_resources(node: NodeInfo | None, state: NodeState, shape: PodShape) -> Iterator[str]:
    """Yield the devices that the kubelet ignores, since its node lacks them (removeMissingExtendedResources)."""
    from zonewise_scheduler.admission.explain.phrases import listed
    from zonewise_scheduler.nodes.node.node_info import lacks

    requested = {name for container in shape.containers for name, count in container.devices if count}
    lacking = sorted(name for name in requested - state.kind.device_indices.keys() if node is None or lacks(node, name))
    if lacking:
        yield f"  without {listed(lacking)}: a kubelet ignores requests for devices that its node lacks"


def _release_doubts(release: tuple[int, int] | None, state: NodeState, shape: PodShape) -> Iterator[str]:
    """Yield whether the kubelet's release makes the verdict uncertain; None: no Node has the release."""
    from zonewise_scheduler.admission.admit import RELEASES, differing_releases

    if release is not None and release not in RELEASES:
        yield f"  uncertain: nothing is known about kubelets of release {_version(release)}"
    elif release is None and (differing := differing_releases(state, shape)):
        releases = ", ".join(map(_version, differing))
        yield f"  uncertain: nothing is known about the kubelet's release; these decide otherwise: {releases}"


def _version(release: tuple[int, int]) -> str:
    return ".".join(map(str, release))


def _run_deprecated(arguments: Namespace) -> int:
    sys.stderr.write("zonewise: the command `foretell` is deprecated: use `fit`\n")
    return run(arguments)


COMMAND = Command("predict whether a node's kubelet would admit a pod", add_arguments, run)
DEPRECATED_COMMAND = Command("deprecated: use `zonewise fit`", add_arguments, _run_deprecated)
"""The command `foretell`. Deprecated in 0.1.0; to be removed in the next minor version."""


def _verdict_lines(node: str, state: NodeState, shape: PodShape) -> tuple[bool, list[str]]:
    """Return whether the node would admit the pod, and the verdict as text."""
    from zonewise_scheduler.admission.admit import admit
    from zonewise_scheduler.admission.explain.rejection import explain_rejection

    verdict = admit(state, shape)
    uncertainties = [f"  uncertain: {uncertainty}" for uncertainty in verdict.uncertain]
    if not verdict.admitted:
        reason = f"{verdict.reason}: " if verdict.reason else ""
        return False, [f"{node} would reject it: {reason}{explain_rejection(state, shape, verdict)}", *uncertainties]
    assignments = map(_assignment_line, verdict.assignments)
    return True, [
        f"{node} would admit it, and {_further_pods(verdict, shape)} more like it",
        *assignments,
        *uncertainties,
    ]


def _further_pods(verdict: Verdict, shape: PodShape) -> str:
    """Return how many more equal pods the node would admit after this one."""
    from zonewise_scheduler.admission.admit import admit

    for count in range(_MAX_PODS):
        following = admit(verdict.after, shape) if verdict.after is not None else verdict
        if not following.admitted or following.after == verdict.after:
            return "any number" if following.admitted else str(count)
        verdict = following
    return f"at least {_MAX_PODS}"


def _assignment_line(assignment: ContainerAssignment) -> str:
    from zonewise_common.k8s.cpuset import CpuSet

    parts = [f"CPUs {CpuSet.from_bits(assignment.cpus)}"] if assignment.cpus else []
    parts += [f"{block.size / (1 << 30):g} GiB {block.type} of {_zones(block.zones)}" for block in assignment.memory]
    parts += [f"{share.number} {share.resource} of {_zones(share.zones)}" for share in assignment.devices]
    return f"  {assignment.container}: {', '.join(parts)}"


def _zones(bits: int) -> str:
    from zonewise_common.k8s.cpuset import CpuSet

    if not bits:
        return "no known zone"
    zones = CpuSet.from_bits(bits)
    return f"{'zone' if len(zones) == 1 else 'zones'} {zones}"


def _read_shape(path: str) -> PodShape:
    from zonewise_common.k8s.fields import FieldError
    from zonewise_scheduler.admission.pod_spec import read_pod

    objects = list(_read_objects(path))
    if len(objects) != 1:
        raise CommandError(f"{path}: contains {len(objects)} objects; it must contain one pod")
    try:
        return read_pod(_pod(objects[0], path))
    except FieldError as error:
        raise CommandError(f"{path}: {error}") from error


def _pod(obj: Json, path: str) -> Json:
    """Return the pod in an object, or its pod template at any depth. Raises FieldError."""
    from zonewise_common.k8s.fields import object_in

    while True:
        spec = object_in(obj, "spec", "")
        if obj.get("kind", "Pod") == "Pod" and "containers" in spec:
            return obj
        template = spec.get("template") or spec.get("jobTemplate")
        if not isinstance(template, dict):
            raise CommandError(f"{path}: {obj.get('kind', 'it')} is not a Pod and has no pod template")
        obj = {"kind": "Pod", **cast("Json", template)} if "template" in spec else cast("Json", template)


def _read_objects(path: str) -> Iterator[Json]:
    from zonewise_common.k8s.yaml_document import load_documents

    try:
        if path == "-":
            content = sys.stdin.read()
        else:
            with open(path, encoding="utf-8") as file:
                content = file.read()
        documents = load_documents(content)
    except OSError as error:
        raise CommandError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CommandError(f"{path}: not a text file: {error}") from error
    except ValueError as error:
        raise CommandError(f"{path}: {error}") from error
    for document in documents:
        yield from _items(document, path)


def _items(document: object, path: str) -> Iterator[Json]:
    if document is None:
        return
    if not isinstance(document, dict):
        raise CommandError(f"{path}: must contain objects, not {type(document).__name__}")
    obj = cast("Json", document)
    items = obj.get("items")
    if isinstance(items, list):
        for item in cast("list[object]", items):
            yield from _items(item, path)
    else:
        yield obj
