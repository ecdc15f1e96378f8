"""`zonewise foretell`: a report and a pod in, a kubelet's answer out; files of every form, and errors of one line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from support.cli_runner import CliRunner, CommandResult
from support.kubelet_reports import CONFIG, allocatable_of, node_of
from zonewise.kubelet.types import ContainerDevices, KubeletReport
from zonewise.objects.nrt import machine_to_nrt
from zonewise.usage.node_usage import node_usage
from zonewise.usage.types import Usage

if TYPE_CHECKING:
    from pathlib import Path

GPU = "example.com/gpu"
Object = dict[str, Any]
ALIGNED = CONFIG._replace(topology_manager_policy="single-numa-node")


class Foretelling(CliRunner):
    """A directory with a report in it, and the command run there."""

    def __init__(self, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
        super().__init__(place, capsys, "fit")
        machine = node_of((0, 1))
        devices = tuple(ContainerDevices(GPU, (f"g{zone}",), (zone,)) for zone in (0, 1))
        usage = node_usage(machine, KubeletReport((), allocatable_of(machine, devices), ALIGNED))
        assert isinstance(usage, Usage)
        self.report: Object = machine_to_nrt(machine, "node-7", usage, ALIGNED)
        self.write("report.yaml", yaml.safe_dump(self.report))

    def ask(self, pod: str, *reports: str) -> CommandResult:
        """Ask about a pod, by the report unless others are given."""
        flags = [f"--report={self.directory / report}" for report in reports or ("report.yaml",)]
        return self.run(self.directory / pod, *flags)


@pytest.fixture
def desk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Foretelling:
    return Foretelling(tmp_path, capsys)


def pod(**limits: str) -> Object:
    container = {"name": "main", "image": "x", "resources": {"limits": limits}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}


def test_a_pod_that_fits(desk: Foretelling) -> None:
    """The zone, the CPUs and the devices that it would get, and how many more would follow."""
    desk.write("pod.json", json.dumps(pod(cpu="4", memory="1Gi", **{GPU: "1"})))
    said = desk.ask("pod.json")
    assert (said.status, said.err) == (0, "")
    first, given = said.out.splitlines()
    assert first == "node-7 would admit it, and 1 more like it"
    assert given.startswith("  main: CPUs ")
    assert f"1 {GPU} of zone 0" in given


def test_a_pod_that_does_not(desk: Foretelling) -> None:
    """The kubelet's reason, and a sentence; a status that scripts can ask."""
    desk.write("pod.yaml", yaml.safe_dump(pod(cpu="1", memory="1Gi", **{GPU: "2"})))
    said = desk.ask("pod.yaml")
    assert said.status == 1
    assert said.out.startswith("node-7 would reject it: TopologyAffinityError: needs 2 example.com/gpu in one zone; ")


SPEC = {"spec": pod(cpu="2", memory="1Gi")["spec"]}
WRAPPED: list[Object] = [
    {"kind": "Job", "spec": {"template": SPEC}},
    {"kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": SPEC}}}},
    {"kind": "List", "items": [{"kind": "Deployment", "spec": {"template": SPEC}}]},
]


@pytest.mark.parametrize("wrapped", WRAPPED, ids=lambda wrapped: wrapped["kind"])
def test_templates(desk: Foretelling, wrapped: Object) -> None:
    """Whatever has a pod template is asked for the pod that it would make."""
    desk.write("it.yaml", yaml.safe_dump(wrapped))
    assert desk.ask("it.yaml").out.startswith("node-7 would admit it")


def test_several_reports(desk: Foretelling) -> None:
    """Each node answers, lists of them too; one that takes the pod is enough."""
    other = {**desk.report, "metadata": {"name": "node-8"}, "zones": desk.report["zones"][:1]}
    desk.write("list.yaml", yaml.safe_dump({"kind": "List", "items": [other, desk.report]}))
    desk.write("pod.yaml", yaml.safe_dump(pod(cpu="2", memory="1Gi")))
    said = desk.ask("pod.yaml", "list.yaml", "report.yaml")
    assert [line.split()[0] for line in said.out.splitlines() if "would" in line] == ["node-8", "node-7", "node-7"]


def test_a_report_of_others(desk: Foretelling) -> None:
    """What a report without our attributes leaves unknown is said."""
    zones: list[Object] = [{**zone, "attributes": []} for zone in desk.report["zones"] if zone["type"] == "Node"]
    kept = [one for one in desk.report["attributes"] if "/" not in one["name"]]
    desk.write("plain.yaml", yaml.safe_dump({**desk.report, "attributes": kept, "zones": zones}))
    desk.write("pod.yaml", yaml.safe_dump(pod(cpu="2", memory="1Gi")))
    assert "  not sure: nothing is known of which CPUs are free" in desk.ask("pod.yaml", "plain.yaml").out


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("absent", None, "cannot be read: No such file or directory"),
        ("bad.yaml", "a: [", "no YAML: "),
        ("text.yaml", "hello", "must hold objects, not str"),
        ("none.yaml", "", "holds 0 objects, not one pod"),
        ("node.yaml", "kind: Node", "Node is no Pod and has no pod template"),
        ("pod.yaml", yaml.safe_dump(pod(cpu="four")), "not a quantity: 'four'"),
    ],
)
def test_bad_pods(desk: Foretelling, name: str, content: str | None, error: str) -> None:
    """One line, status 2, with the file, the field and the value."""
    if content is not None:
        desk.write(name, content)
    said = desk.ask(name)
    assert (said.status, said.out) == (2, "")
    assert said.err.startswith(f"zonewise: error: {desk.directory / name}: ")
    assert error in said.err
    assert said.err.count("\n") == 1


def test_bad_reports(desk: Foretelling) -> None:
    """A file that is no report is named; damage in one is told and costs only itself."""
    desk.write("pod.yaml", yaml.safe_dump(pod(cpu="2", memory="1Gi")))
    assert "no NodeResourceTopology with zones that can be used" in desk.ask("pod.yaml", "pod.yaml").err
    desk.report["zones"][0]["resources"][0]["available"] = "many"
    desk.write("report.yaml", yaml.safe_dump(desk.report))
    said = desk.ask("pod.yaml")
    assert "'many'" in said.err
    assert said.out.startswith("node-7 would admit it")
