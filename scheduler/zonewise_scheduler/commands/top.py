"""`zonewise top`: shows free resources by node and zone."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from zonewise_common.cli.command import Command
from zonewise_common.cli.output_format import add_output_arguments, render_listing
from zonewise_common.cli.redraw import add_watch_arguments
from zonewise_common.cli.terminal import stdout_terminal
from zonewise_scheduler.client.cluster.session import add_cluster_arguments, open_session
from zonewise_scheduler.client.cluster.watched_text import show_text

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

_NO_NODE = 1


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    from zonewise_scheduler.client.nodes.node_listing import SORT_COLUMNS

    parser.epilog = (
        "The line of a node shows what its pods do not request. The lines of its zones show what a Guaranteed pod "
        "could get exclusively, as the agent reports it. LARGEST is the largest free block of one zone, the most that "
        "one pod can get on one zone. It counts GPUs on nodes with GPUs, else CPUs. The last line has the largest "
        "block of all these nodes. IN ONE ZONE (-o wide) is this block divided by all that is free on the node; 100% "
        "means no fragmentation. For --sort-by, cpus, memory and gpus are what is free. Status 0: done; 1: there is no "
        "such node; 2: unusable arguments, or no API server."
    )
    parser.add_argument("nodes", metavar="NODE", nargs="*", help="nodes to list (default: all)")
    parser.add_argument("-l", "--selector", metavar="LABELS", default="", help="list only nodes with these labels, "
        "such as pool=gpu")  # fmt: skip
    parser.add_argument("--no-zones", action="store_true", help="print one line for each node")
    parser.add_argument("--sort-by", metavar="COLUMN", choices=SORT_COLUMNS, default="", help="sort nodes, the "
        f"highest value first, by {', '.join(SORT_COLUMNS)} (default: by name)")  # fmt: skip
    add_output_arguments(parser)
    add_watch_arguments(parser)
    add_cluster_arguments(parser, all_namespaces=False, read_api=False)


def run(arguments: Namespace) -> int:
    """Print the nodes. Raises CommandError."""
    terminal = stdout_terminal(arguments.color)
    with open_session(arguments) as session:
        from zonewise_scheduler.client.nodes.node_listing import list_nodes, sorted_nodes
        from zonewise_scheduler.client.nodes.node_reading import read_nodes

        nodes, notes = read_nodes(session, arguments.nodes, arguments.selector)
        unknown = sorted(set(arguments.nodes) - {node.name for node in nodes})
        if unknown:
            sys.stderr.write(f"zonewise: there is no node {unknown[0]}; `zonewise top` lists all nodes\n")
            return _NO_NODE
        latest = [(nodes, notes)]

        def text() -> str:
            nodes, notes = latest.pop() if latest else read_nodes(session, arguments.nodes, arguments.selector)
            listing = list_nodes(sorted_nodes(nodes, arguments.sort_by), notes, zones=not arguments.no_zones)
            return render_listing(listing, arguments.output, terminal)

        show_text(text, terminal, arguments)
    return 0


COMMAND = Command("list free CPUs, memory, GPUs and the largest block, zone by zone", add_arguments, run)
