"""`zonewise explain NODE`: what is free in each zone, which pods hold the rest, and what is wrong with the node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.cli.details import Detail
from zonewise_common.cli.table import Cell, Column, make_table
from zonewise_scheduler.client.describe_job import pod_problem
from zonewise_scheduler.client.describe_pod import held_text
from zonewise_scheduler.client.description import Description
from zonewise_scheduler.client.node_listing import list_nodes
from zonewise_scheduler.quota.api.amount import amount_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zonewise_common.cli.table import Table
    from zonewise_scheduler.client.node_facts import NodeAvailability
    from zonewise_scheduler.client.pod_facts import PodFacts


def describe_node(node: NodeAvailability, notes: Sequence[str]) -> Description:
    """Return the description of a node."""
    listing = list_nodes([node])
    pods = None if node.pods is None else [_pod_document(node, pod) for pod in node.pods]
    document = {**listing.document["items"][0], "pods": pods}
    tables = (*listing.tables, _pod_table(node))
    return Description(f"Node {node.name}", list(_details(node)), document, f"node/{node.name}", tables, notes)


def _details(node: NodeAvailability) -> Iterator[Detail]:
    ready = "unknown" if node.ready is None else "Ready" if node.ready else "not Ready"
    state = ready if node.schedulable else f"{ready}, cordoned: no pod is scheduled to it"
    yield Detail("state", [state], "good" if node.ready and node.schedulable else "warning")
    yield Detail("problems", node.problems, "bad")
    if node.zones is None:
        yield Detail("zones", ["unknown: it has no NodeResourceTopology. Check that the agent runs on it."], "warning")
    yield Detail("policy", [node.policy])


def _pod_table(node: NodeAvailability) -> Table:
    columns = (
        Column("POD", shorten="middle"),
        Column("REQUESTS", shorten="end"),
        Column("HOLDS EXCLUSIVELY", shorten="end"),
        Column("PREDICTED ADMISSION", wide=True),
        Column("PROBLEM", shorten="end"),
    )
    rows: list[list[str | Cell]] = []
    for pod in node.pods or ():
        holdings = node.held_by(pod)
        requests = ", ".join(f"{amount_text(name, amount)} {name}" for name, amount in pod.requests.items())
        problem = Cell(pod_problem(pod), "bad")
        held = "" if holdings is None else held_text(holdings)
        rows.append([f"{pod.namespace}/{pod.name}", requests, held, pod.predicted_admission, problem])
    return make_table(columns, rows)


def _pod_document(node: NodeAvailability, pod: PodFacts) -> dict[str, str | None]:
    holdings = node.held_by(pod)
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "held": None if holdings is None else held_text(holdings),
        "predictedAdmission": pod.predicted_admission or None,
    }
