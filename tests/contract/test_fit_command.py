"""`zonewise fit` predicts a verdict from a report and a pod; it reads files of every form, and an error is one line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from support.cli_runner import CliRunner, CommandResult
from support.kubelet_reports import CONFIG, make_allocatable, make_node
from zonewise.cli import main
from zonewise.kubelet.types import ContainerDevices, KubeletReport
from zonewise.objects.nrt import machine_to_nrt
from zonewise.usage.node_usage import node_usage
from zonewise.usage.types import Usage

if TYPE_CHECKING:
    from pathlib import Path

GPU = "example.com/gpu"
Object = dict[str, Any]
ALIGNED = CONFIG._replace(topology_manager_policy="single-numa-node")


class Fitting(CliRunner):
    """A directory with a report, in which the command runs."""

    def __init__(self, index: Path, capsys: pytest.CaptureFixture[str]) -> None:
        super().__init__(index, capsys, "fit")
        machine = make_node((0, 1))
        devices = tuple(ContainerDevices(GPU, (f"g{zone}",), (zone,)) for zone in (0, 1))
        usage = node_usage(machine, KubeletReport((), make_allocatable(machine, devices), ALIGNED))
        assert isinstance(usage, Usage)
        self.report: Object = machine_to_nrt(machine, "node-7", usage, ALIGNED)
        self.write("report.yaml", yaml.safe_dump(self.report))

    def predict(self, pod: str, *reports: str) -> CommandResult:
        """Run the command for a pod, by default with the report of the directory."""
        flags = [f"--report={self.directory / report}" for report in reports or ("report.yaml",)]
        return self.run(self.directory / pod, *flags)


@pytest.fixture
def fitting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Fitting:
    return Fitting(tmp_path, capsys)


def pod(**limits: str) -> Object:
    container = {"name": "main", "image": "x", "resources": {"limits": limits}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}


def test_a_pod_that_fits(fitting: Fitting) -> None:
    """The output has the zone, the CPUs and the devices of the pod, and the number of further pods that fit."""
    fitting.write("pod.json", json.dumps(pod(cpu="4", memory="1Gi", **{GPU: "1"})))
    result = fitting.predict("pod.json")
    assert (result.status, result.err) == (0, "")
    first, assignment = result.out.splitlines()
    assert first == "node-7 would admit it, and 1 more like it"
    assert assignment.startswith("  main: CPUs ")
    assert f"1 {GPU} of zone 0" in assignment


def test_devices_that_the_node_lacks(fitting: Fitting) -> None:
    """kube-scheduler sends no such pod to the node, but its kubelet would run the pod without the devices."""
    note = "  without a.io/fpga and b.io/nic: a kubelet ignores requests for devices that its node lacks"
    fitting.write("pod.json", json.dumps(pod(cpu="4", memory="1Gi", **{GPU: "1", "b.io/nic": "2", "a.io/fpga": "1"})))
    result = fitting.predict("pod.json")
    assert result.status == 0
    assert result.out.splitlines()[2] == note
    allocatable = {"cpu": "8", "memory": "8Gi", "pods": "9", "a.io/fpga": "4", "b.io/nic": "4"}
    node = {"kind": "Node", "metadata": {"name": "node-7"}, "status": {"allocatable": allocatable}}
    fitting.write("node.json", json.dumps(node))
    assert note not in fitting.predict("pod.json", "report.yaml", "node.json").out


def test_a_pod_that_does_not_fit(fitting: Fitting) -> None:
    """The output has the kubelet's reason with an explanation, and the exit status is 1, for scripts."""
    fitting.write("pod.yaml", yaml.safe_dump(pod(cpu="1", memory="1Gi", **{GPU: "2"})))
    result = fitting.predict("pod.yaml")
    assert result.status == 1
    assert result.out.startswith("node-7 would reject it: TopologyAffinityError: needs 2 example.com/gpu in one zone; ")


SPEC = {"spec": pod(cpu="2", memory="1Gi")["spec"]}
WRAPPED: list[Object] = [
    {"kind": "Job", "spec": {"template": SPEC}},
    {"kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": SPEC}}}},
    {"kind": "List", "items": [{"kind": "Deployment", "spec": {"template": SPEC}}]},
]


@pytest.mark.parametrize("wrapped", WRAPPED, ids=lambda wrapped: wrapped["kind"])
def test_templates(fitting: Fitting, wrapped: Object) -> None:
    """An object with a pod template is read as a pod of that template."""
    fitting.write("it.yaml", yaml.safe_dump(wrapped))
    assert fitting.predict("it.yaml").out.startswith("node-7 would admit it")


def test_several_reports(fitting: Fitting) -> None:
    """Each node gets a verdict, also those in lists; the status is 0 if one node admits the pod."""
    other = {**fitting.report, "metadata": {"name": "node-8"}, "zones": fitting.report["zones"][:1]}
    fitting.write("list.yaml", yaml.safe_dump({"kind": "List", "items": [other, fitting.report]}))
    fitting.write("pod.yaml", yaml.safe_dump(pod(cpu="2", memory="1Gi")))
    result = fitting.predict("pod.yaml", "list.yaml", "report.yaml")
    assert [line.split()[0] for line in result.out.splitlines() if "would" in line] == ["node-8", "node-7", "node-7"]


POD_LEVEL = pod(cpu="2", memory="1Gi")
POD_LEVEL["spec"]["resources"] = {"limits": {"cpu": "2", "memory": "1Gi"}}
"""From 1.34 on, kubelets give it no exclusive CPUs."""


@pytest.mark.parametrize(
    ("version", "has_cpus", "doubt"),
    [
        ("v1.33.5", True, ""),
        ("v1.34.1-eks-113cf36", False, ""),
        (None, False, "the kubelet's release; these decide otherwise: 1.31, 1.32, 1.33"),
        ("unknown", False, "the kubelet's release; these decide otherwise: 1.31, 1.32, 1.33"),
        ("v2.0.0", False, "kubelets of release 2.0"),
    ],
)
def test_the_release_of_the_kubelet(fitting: Fitting, version: str | None, has_cpus: bool, doubt: str) -> None:
    """It is that of the Node in the same list. Without a Node, the output names the releases that decide otherwise."""
    node = {"kind": "Node", "metadata": {"name": "node-7"}, "status": {"nodeInfo": {"kubeletVersion": version}}}
    items = [fitting.report, *([node] if version else [])]
    fitting.write("list.yaml", yaml.safe_dump({"kind": "List", "items": items}))
    fitting.write("pod.yaml", yaml.safe_dump(POD_LEVEL))
    result = fitting.predict("pod.yaml", "list.yaml")
    assert ("main: CPUs " in result.out) == has_cpus
    assert (f"  uncertain: nothing is known about {doubt}\n" in result.out) == bool(doubt)
    assert ("uncertain" in result.out) == bool(doubt)


def test_unhealthy_devices_of_the_node(fitting: Fitting) -> None:
    """The Node counts a device that the report lacks, so that a pod with two devices needs no other zone."""
    fitting.report["zones"] = [zone for zone in fitting.report["zones"] if zone["type"] == "Node"]
    for attribute in fitting.report["attributes"]:
        if attribute["name"] == "topologyManagerPolicy":
            attribute["value"] = "restricted"
    fitting.write("report.yaml", yaml.safe_dump(fitting.report))
    node = {"kind": "Node", "metadata": {"name": "node-7"}, "status": {"capacity": {GPU: "4"}}}
    fitting.write("node.yaml", yaml.safe_dump(node))
    fitting.write("pod.yaml", yaml.safe_dump(pod(**{GPU: "2"})))
    assert fitting.predict("pod.yaml").status == 0
    assert fitting.predict("pod.yaml", "report.yaml", "node.yaml").status == 1


def test_a_report_of_another_agent(fitting: Fitting) -> None:
    """The output names the facts that a report of another agent lacks."""
    zones: list[Object] = [{**zone, "attributes": []} for zone in fitting.report["zones"] if zone["type"] == "Node"]
    retained = [entry for entry in fitting.report["attributes"] if "/" not in entry["name"]]
    fitting.write("plain.yaml", yaml.safe_dump({**fitting.report, "attributes": retained, "zones": zones}))
    fitting.write("pod.yaml", yaml.safe_dump(pod(cpu="2", memory="1Gi")))
    assert "  uncertain: nothing is known about which CPUs are free" in fitting.predict("pod.yaml", "plain.yaml").out


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("absent", None, "cannot be read: No such file or directory"),
        ("bad.yaml", "a: [", "no YAML: "),
        ("tag.yaml", "kind: Pod\nspec: !!bool x", "no YAML: "),
        ("deep.yaml", "[" * 3000, "no YAML: "),
        ("list.yaml", "kind: Job\nspec: [1]", "spec: not an object: [1]"),
        ("text.yaml", "hello", "must contain objects, not str"),
        ("none.yaml", "", "contains 0 objects; it must contain one pod"),
        ("node.yaml", "kind: Node", "Node is not a Pod and has no pod template"),
        ("pod.yaml", yaml.safe_dump(pod(cpu="four")), "not a quantity: 'four'"),
    ],
)
def test_bad_pods(fitting: Fitting, name: str, content: str | None, error: str) -> None:
    """The error is one line with the file, the field and the value, and the exit status is 2."""
    if content is not None:
        fitting.write(name, content)
    result = fitting.predict(name)
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith(f"zonewise: error: {fitting.directory / name}: ")
    assert error in result.err
    assert result.err.count("\n") == 1


def test_bad_reports(fitting: Fitting) -> None:
    """A file without a report is named, also one with only a Node. Damage in a report is printed.

    It invalidates only the damaged part.
    """
    fitting.write("pod.yaml", yaml.safe_dump(pod(cpu="2", memory="1Gi")))
    assert (
        "no usable zones: the object must be a NodeResourceTopology that an agent wrote"
        in fitting.predict("pod.yaml", "pod.yaml").err
    )
    fitting.write("node.yaml", "kind: Node\nmetadata: {name: node-7}\n")
    assert "node.yaml: contains no NodeResourceTopology" in fitting.predict("pod.yaml", "node.yaml").err
    fitting.write("node.yaml", "kind: Node\nmetadata: {name: 7}\n")
    assert "node.yaml: Node: metadata.name: " in fitting.predict("pod.yaml", "report.yaml", "node.yaml").err
    fitting.report["zones"][0]["resources"][0]["available"] = "many"
    fitting.write("report.yaml", yaml.safe_dump(fitting.report))
    result = fitting.predict("pod.yaml")
    assert "'many'" in result.err
    assert result.out.startswith("node-7 would admit it")


def test_the_deprecated_command(fitting: Fitting, capsys: pytest.CaptureFixture[str]) -> None:
    """The old name of the command still works, and stderr states that it is deprecated."""
    path = fitting.write("pod.yaml", yaml.safe_dump(pod(cpu="4", memory="1Gi")))
    current = fitting.predict("pod.yaml")
    assert main(["foretell", path, f"--report={fitting.directory / 'report.yaml'}"]) == current.status
    printed = capsys.readouterr()
    assert printed.out == current.out
    assert "deprecated: use `fit`" in printed.err
