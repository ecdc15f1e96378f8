"""The resident memory and CPU time that rules and health checks add to an idle agent. Run by `make bench`.

Agents with and without these run at the same time on one machine described by files, so all have the same disturbances.
Each agent has a separate Node. The API server is the embedded one.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.agent import KUBELET_CONFIG, SNAPSHOT, kubelet_zones, unpacked_machine
from benchmarks.support.agent_testbed import embedded, running_agent, wait
from benchmarks.support.targets import Row, show
from zonewise_common.kube.client import Client
from zonewise_common.kube.errors import KubeError
from zonewise_common.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NODE_FEATURE_RULES, NODES
from zonewise_sandbox.kubelet import SimulatedKubelet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from benchmarks.support.agent_testbed import AgentProcess, Api

AGENTS = 3
"""Number of agents of each kind, of which the median counts."""
SETTLING = 20.0
"""Seconds until the heap has settled."""
IDLE = 70.0
"""Seconds in which only the slow rescan happens, once a minute."""
RULES = 20
MAX_MEMORY = 3.0
"""Maximum additional memory in MiB."""
MAX_CPU = 0.1
"""Maximum additional CPU, in percent of a core. Less is indistinguishable from noise within 70 seconds, since /proc
counts hundredths of a second."""


def main() -> int:
    """Run the measurement and print the table; return 1 if a target is missed."""
    if not SNAPSHOT.exists():
        print("the captured machines are not beside the project: nothing was measured")
        return 0
    with tempfile.TemporaryDirectory() as directory, embedded(Path(directory)) as api:
        assert api is not None
        return show(list(_measure(unpacked_machine(Path(directory)), directory, api)))


def _measure(root: Path, directory: str, api: Api) -> Iterator[Row]:
    kinds = {"none": (), "health": _health(directory), "rules": _RULES, "both": (*_health(directory), *_RULES)}
    with ExitStack() as stack:
        kubelet_directory = stack.enter_context(tempfile.TemporaryDirectory())
        stack.enter_context(SimulatedKubelet(kubelet_directory, kubelet_zones(root)))
        Path(kubelet_directory, "config.yaml").write_text(KUBELET_CONFIG)
        client = Client(api.config)
        stack.callback(client.close)
        _define_rules(client)
        agents: dict[str, list[AgentProcess]] = {}
        for kind, flags in kinds.items():
            for number in range(AGENTS):
                node = f"{kind}-{number}"
                client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}})
                state = ("--health-state-file", os.path.join(directory, node)) if "--health-mode" in flags else ()
                agent = stack.enter_context(running_agent(root, kubelet_directory, api, *flags, *state, node=node))
                agents.setdefault(kind, []).append(agent)
        wait(lambda: _is_published(client, kinds))
        time.sleep(SETTLING)
        before = {kind: [agent.cpu_seconds() for agent in group] for kind, group in agents.items()}
        time.sleep(IDLE)
        memory, cpu = dict[str, float](), dict[str, float]()
        for kind, group in agents.items():
            spent = [agent.cpu_seconds() - start for agent, start in zip(group, before[kind], strict=True)]
            cpu[kind] = statistics.median(spent) / IDLE * 100
            memory[kind] = statistics.median(agent.weight()[0] for agent in group)
    yield Row("resident without health and rules", f"{memory['none']:.1f} MiB")
    yield Row("CPU while idle", f"{cpu['none']:.2f} % of a core")
    for kind, label in (("health", "health"), ("rules", f"{RULES} rules"), ("both", "health and rules")):
        added, share = memory[kind] - memory["none"], cpu[kind] - cpu["none"]
        limits = (f"<= {MAX_MEMORY:g} MiB", f"<= {MAX_CPU} %") if kind == "both" else ("", "")
        yield Row(f"resident that {label} add" + "s"[: kind == "health"], f"{added:.2f} MiB", limits[0],
                  kind != "both" or added <= MAX_MEMORY)  # fmt: skip
        yield Row("... CPU while idle", f"{share:+.2f} % of a core", limits[1], kind != "both" or share <= MAX_CPU)


def _is_published(client: Client, kinds: Iterable[str]) -> bool:
    """Return whether health and rules are active: their conditions and labels are on the Nodes."""
    for kind in kinds:
        node = client.get(NODES, f"{kind}-0")
        has_conditions = bool(node.get("status", {}).get("conditions"))
        has_labels = "example.com/rule-1" in node["metadata"].get("labels", {})
        if (has_conditions, has_labels) != (kind in {"health", "both"}, kind in {"rules", "both"}):
            return False
    return True


_RULES = ("--rules-enabled", "true")


def _health(directory: str) -> tuple[str, ...]:
    """Return the flags of an agent that publishes health, with a kernel log that does not change."""
    log = os.path.join(directory, "kmsg")
    if not os.path.exists(log):
        Path(log).touch()
    return "--health-mode", "publish", "--health-kernel-log", log


def _define_rules(client: Client) -> None:
    names = {"plural": "nodefeaturerules", "kind": "NodeFeatureRule"}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1alpha1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {"group": "nfd.k8s-sigs.io", "scope": "Cluster", "names": names, "versions": [version]}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "nodefeaturerules.nfd.k8s-sigs.io"}, "spec": spec,
    }  # fmt: skip
    client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    wait(lambda: _serves_rules(client))
    for number in range(RULES):
        client.create(NODE_FEATURE_RULES, _rule(number))


def _serves_rules(client: Client) -> bool:
    try:
        client.list(NODE_FEATURE_RULES)
    except KubeError:
        return False
    return True


def _rule(number: int) -> dict[str, Any]:
    """Return a rule typical of clusters: an expression, a name pattern and a template."""
    terms = [
        {"feature": "pci.device", "matchExpressions": {"class": {"op": "In", "value": ["0200", "0300", "0302"]}}},
        {"feature": "kernel.loadedmodule", "matchName": {"op": "InRegexp", "value": [f"^nv.*{number}|^i"]}},
    ]
    template = "{{ range .pci.device }}example.com/device-{{ .class }}-{{ .vendor }}=true\n{{ end }}"
    rule = {"name": "one", "labels": {f"example.com/rule-{number}": "true"}, "labelsTemplate": template,
            "matchFeatures": terms[:1] if number % 2 else terms}  # fmt: skip
    metadata = {"name": f"rules-{number}"}
    return {"apiVersion": "nfd.k8s-sigs.io/v1alpha1", "kind": "NodeFeatureRule", "metadata": metadata,
            "spec": {"rules": [rule]}}  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
