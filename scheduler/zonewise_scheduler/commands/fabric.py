"""`zonewise fabric`: labels nodes with their switches, from a dump of InfiniBand or a topology file of Slurm."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.cli.argument_types import checked
from zonewise_common.cli.command import Command, CommandError
from zonewise_common.cli.output import STANDARD_OUTPUT, write
from zonewise_common.cli.output_format import JSON, TABLE, YAML, add_output_arguments, render_document, render_listing
from zonewise_common.cli.terminal import printable, stdout_terminal
from zonewise_common.k8s.labels import is_qualified_name, is_subdomain
from zonewise_scheduler.client.cluster.session import add_cluster_arguments, open_session

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from zonewise_scheduler.client.cluster.session import Json, Session
    from zonewise_scheduler.client.fabric.fabric_nodes import LabelledNode
    from zonewise_scheduler.fabric.levels import FabricLevels
    from zonewise_scheduler.fabric.types import NetworkFabric

LABELS = "labels"
_NOT_DONE = 1


class _LabelledFabric(NamedTuple):
    """What the files describe, for the hosts or for the nodes of a cluster."""

    levels: FabricLevels
    labels: tuple[str, ...]
    node_labels: dict[str, dict[str, str]]
    notes: tuple[str, ...]


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = (
        "FILE is the output of ibnetdiscover, one for each subnet, or one topology.conf or topology.yaml of Slurm. "
        "Level 0 joins nodes that are connected to the same leaf switches. The next levels join what higher switches "
        "connect. Without a cluster, each host counts as a node. --match, --apply, --dry-run, -o yaml and -o json read "
        "the nodes of the cluster. They match hosts by the GUIDs of their HCAs, or by name. Hosts without a node are "
        "listed and get no labels. Status 0: done; 1: some nodes could not be changed; 2: unusable files or "
        "arguments, or no API server."
    )
    add = parser.add_argument
    add("files", metavar="FILE", nargs="+", help="file to read, or - for standard input")
    add("--match", action="store_true", help="show the nodes of the cluster instead of the hosts in the files")
    add("--apply", action="store_true", help="label the nodes, and create the Topology")
    add("--dry-run", action="store_true", help="print what --apply would change, and change nothing")
    add("--prune", action="store_true", help="also remove the labels of nodes that are not in the files")
    add("--force", action="store_true", help="take over labels that others have set to other values")
    add("--labels", metavar="KEY,...", type=checked(label_names), default=(), help="labels of the levels, level 0 "
        "first (default: zonewise.dev/fabric-tier-0, ...-1, ...)")  # fmt: skip
    add("--name", metavar="NAME", type=checked(_object_name), default="fabric", help="name of the Topology (default: "
        "fabric)")  # fmt: skip
    add("--slurm-topology", metavar="NAME", default="", help="topology to read from a topology.yaml (default: the only "
        "one, or that with cluster_default)")  # fmt: skip
    add_output_arguments(parser, (TABLE, LABELS, JSON, YAML))
    add_cluster_arguments(parser, namespaced=False, all_namespaces=False, read_api=False)


def run(arguments: Namespace) -> int:
    """Print the levels or the objects, or change the nodes. Raises CommandError."""
    fabric = _read(arguments.files, arguments.slurm_topology)
    changes_nodes = arguments.apply or arguments.dry_run
    if not (changes_nodes or arguments.match or arguments.output in (JSON, YAML)):
        _print(arguments, _result(fabric, None, arguments), {})
        return 0
    with open_session(arguments) as session:
        from zonewise_scheduler.client.fabric.fabric_nodes import read_labelled_nodes

        nodes, notes = read_labelled_nodes(session)
        result = _result(fabric, nodes, arguments)
        result = result._replace(notes=(*notes, *result.notes))
        if not result.node_labels:
            raise CommandError("no node of the cluster has a link to a switch in the files; nothing was changed")
        if changes_nodes:
            return _change(session, nodes, result, arguments)
    _print(arguments, result, {node.names.name: node.uid for node in nodes})
    return 0


COMMAND = Command("label nodes with their switches, for topology-aware placement", add_arguments, run)


def label_names(text: str) -> tuple[str, ...]:
    """Return the names of labels in a list. Raises ValueError."""
    names = tuple(text.split(","))
    for name in names:
        if not is_qualified_name(name):
            raise ValueError(f"{name!r} is not a valid name of a label")
    if len(set(names)) < len(names) or "kubernetes.io/hostname" in names:
        raise ValueError(f"{text!r} must name different labels, without kubernetes.io/hostname")
    return names


def _object_name(text: str) -> str:
    if not is_subdomain(text):
        raise ValueError(f"{text!r} is not a valid name of an object")
    return text


def _read(paths: Sequence[str], slurm_topology: str) -> NetworkFabric:
    from zonewise_scheduler.fabric.reading import read_fabric
    from zonewise_scheduler.fabric.text_lines import numbered_lines
    from zonewise_scheduler.fabric.types import FabricError

    path = ""
    with ExitStack() as stack:
        try:
            files: list[tuple[str, Iterator[tuple[int, str]]]] = []
            for path in paths:
                name = "standard input" if path == "-" else path
                file = sys.stdin.buffer if path == "-" else stack.enter_context(open(path, "rb"))
                files.append((printable(name), numbered_lines(file, printable(name))))
            return read_fabric(files, slurm_topology)
        except FabricError as error:
            raise CommandError(str(error)) from error
        except OSError as error:
            raise CommandError(f"{printable(path)}: {(error.strerror or str(error)).lower()}") from error


def _result(fabric: NetworkFabric, nodes: Sequence[LabelledNode] | None, arguments: Namespace) -> _LabelledFabric:
    """Return the levels of the hosts in the files, or those of the nodes of a cluster."""
    from zonewise_scheduler.client.fabric.fabric_listing import fabric_notes, missing_nodes
    from zonewise_scheduler.fabric.levels import fabric_levels
    from zonewise_scheduler.fabric.matching import match_hosts, match_nodes
    from zonewise_scheduler.fabric.node_labels import level_labels, node_labels
    from zonewise_scheduler.fabric.types import FabricError

    match = match_hosts(fabric.hcas) if nodes is None else match_nodes(fabric.hcas, (node.names for node in nodes))
    levels = fabric_levels(fabric, match.leaves)
    try:
        labels = level_labels(levels, arguments.labels)
    except FabricError as error:
        raise CommandError(str(error)) from error
    notes = [*fabric_notes(fabric, match, levels)]
    if nodes is not None:
        notes += missing_nodes([node.names.name for node in nodes], match)
    return _LabelledFabric(levels, labels, node_labels(levels, labels), tuple(notes))


def _print(arguments: Namespace, result: _LabelledFabric, uids: Mapping[str, str]) -> None:
    from zonewise_scheduler.client.fabric.fabric_listing import list_fabric
    from zonewise_scheduler.client.fabric.fabric_objects import node_object, topology_object

    if arguments.output == LABELS:
        lines = (f"{node} {_pairs(labels)}\n" for node, labels in result.node_labels.items())
        write("".join(lines), STANDARD_OUTPUT)
    elif arguments.output == TABLE:
        listing = list_fabric(result.levels, result.labels)
        write(render_listing(listing, TABLE, stdout_terminal(arguments.color)), STANDARD_OUTPUT)
    else:
        items = [node_object(node, labels, uids[node]) for node, labels in result.node_labels.items()]
        objects: Json = {"apiVersion": "v1", "kind": "List"}
        objects["items"] = [topology_object(arguments.name, result.labels), *items]
        write(render_document(objects, arguments.output), STANDARD_OUTPUT)
    _print_notes(result.notes)


def _change(session: Session, nodes: Iterable[LabelledNode], result: _LabelledFabric, arguments: Namespace) -> int:
    """Print the changes, and apply them unless --dry-run is set."""
    from zonewise_scheduler.client.fabric.fabric_changes import (
        apply_labels,
        apply_topology,
        label_changes,
        topology_change,
    )
    from zonewise_scheduler.client.fabric.fabric_objects import topology_object

    notes = list(result.notes)
    changes, unconfirmed = label_changes(nodes, result.node_labels, prune=arguments.prune)
    if unconfirmed:
        notes.append(f"nodes that are not in the files retain their labels; --prune removes them: {len(unconfirmed)}")
    topology = topology_object(arguments.name, result.labels)
    of_topology = topology_change(session, topology)
    if of_topology is None:
        notes.append("the cluster has no kind Topology of Kueue, so only nodes are labelled")
    steps = [
        (f"node/{change.node} {', '.join(change.parts)}", partial(apply_labels, session, change)) for change in changes
    ]
    if of_topology:
        steps.append((of_topology, partial(apply_topology, session, topology)))
    status = 0
    for text, apply in steps:
        problem = "" if arguments.dry_run else apply(force=arguments.force)
        if problem:
            status = _NOT_DONE
            sys.stderr.write(f"zonewise: {printable(problem)}\n")
        else:
            write(f"{printable(text)}{' (dry run)' if arguments.dry_run else ''}\n", STANDARD_OUTPUT)
    if not steps:
        write("There is nothing to change.\n", STANDARD_OUTPUT)
    _print_notes(notes)
    return status


def _pairs(labels: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in labels.items())


def _print_notes(notes: Iterable[str]) -> None:
    sys.stdout.flush()
    for note in notes:
        sys.stderr.write(f"note: {printable(note)}\n")
