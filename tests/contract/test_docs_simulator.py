"""The guides to the simulator and the queue are correct: outputs are reproduced, and numbers are recomputed."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from support.bounds import Gang, earliest_end_offline, earliest_end_online
from support.guides import FROM_KUEUE, SCHEDULING, SIMULATOR, WAITS_BY_POLICY
from support.kubelet_cases import ABSENT, CASES
from support.snapshots import PROJECT
from zonewise.cli import main
from zonewise_scheduler.backfill.policies import DEFAULT_POLICY, POLICY_NAMES, policy_named
from zonewise_scheduler.quota.api.declared_walltime import (
    DEFAULT_RUN_ANNOTATION,
    MAX_EXEC_TIME_LABEL,
    MAX_RUN_ANNOTATION,
)
from zonewise_scheduler.simulator.cluster_simulation import simulate_cluster
from zonewise_scheduler.simulator.inputs.loader import load_scenario
from zonewise_scheduler.simulator.inputs.mixes import MIXES
from zonewise_scheduler.simulator.latency import Latency, pod_start_delays
from zonewise_scheduler.simulator.scenario import Scenario
from zonewise_scheduler.simulator.summary import summarise
from zonewise_scheduler.tas.zones.zone_level import ZONE_LEVEL

if TYPE_CHECKING:
    from pathlib import Path

README = (PROJECT / "README.md").read_text()

OUTPUTS: dict[str, str] = dict(
    re.findall(r"```console\n\$ zonewise (simulate .+)\n((?:(?!```).*\n)*)```", README + SIMULATOR + SCHEDULING)
)
_CLOCK = re.compile(r"^decisions per s .*\n", re.MULTILINE)
"""The only line that depends on the machine."""

TRACES = PROJECT.parent / "shared" / "traces"
KTH = TRACES / "KTH-SP2.easy.swf.gz"
logs = pytest.mark.skipif(not TRACES.exists(), reason="no logs beside the project")


@pytest.mark.parametrize(
    "command", [pytest.param(each, marks=[pytest.mark.long] if "--advise" in each else []) for each in OUTPUTS]
)
def test_outputs_are_printed(command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs are equal line by line, except for the speed. If "..." omits lines, the shown parts occur in order."""
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.chdir(PROJECT)
    assert main(shlex.split(command)) == 0
    said = capsys.readouterr()
    assert said.err == ""
    rest = _CLOCK.sub("", said.out)
    whole, *parts = re.split(r"^\.\.\.\n", _CLOCK.sub("", OUTPUTS[command]), flags=re.MULTILINE)
    assert rest.startswith(whole)
    for part in parts:
        assert part in rest
        rest = rest[rest.index(part) + len(part) :]
    assert parts or rest == whole


def test_the_files_of_nodes_and_jobs_are_simulated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of the guide have no problems, and the command prints what the guide shows."""
    page = (PROJECT / "docs/guides/simulator-files.md").read_text()
    for name, text in re.findall(r'```yaml title="([^"]+)"\n(.+?)```', page, re.DOTALL):
        (tmp_path / name).write_text(text)
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.chdir(tmp_path)
    [(command, output)] = re.findall(r"```console\n\$ zonewise ([^\n]+)\n(.+?)\.\.\.\n```", page, re.DOTALL)
    assert main(shlex.split(command)) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert said.out.startswith(output)


@pytest.mark.parametrize(("table", "module"), [("Nodes", "fleet_file"), ("Jobs", "job_file")])
def test_the_documented_fields_are_read(table: str, module: str) -> None:
    """Each field in the tables of the guide is a string in the module that reads the file."""
    page = (PROJECT / "docs/guides/simulator-files.md").read_text()
    section = page.partition(f"## {table}\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`.+?) \|", section, re.MULTILINE)
    fields = {name.rpartition(".")[2] for cell in cells for name in re.findall(r"`([a-zA-Z.\[\]]+)`", cell)}
    source = (PROJECT / f"scheduler/zonewise_scheduler/simulator/inputs/{module}.py").read_text()
    assert len(fields) > 10
    assert {field for field in fields if f'"{field}"' not in source} <= {"name"}


def test_a_log_of_slurm_is_simulated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A substitute for sacct prints three jobs. One has no time limit, and one ends at its limit."""
    convert, command = re.findall(
        r"^```bash\n((?:SLURM|zonewise simulate slurm).*?)```", SIMULATOR, re.DOTALL | re.MULTILINE
    )
    jobs = ("1767225600|3600|64|120|1000", "1767225660|600|128|UNLIMITED|1001", "1767225720|1800|32|30|1000")
    sacct = tmp_path / "sacct"
    sacct.write_text("#!/bin/sh\n" + "".join(f"echo '{job}'\n" for job in jobs))
    sacct.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run(["bash", "-c", convert], cwd=tmp_path, env=environment, check=True, timeout=60)
    document = tmp_path / "slurm.json"
    arguments = shlex.split(command.replace("slurm.swf", str(tmp_path / "slurm.swf")).replace("4096", "128"))[1:]
    assert main([*arguments, "--json", str(document), "--json-jobs"]) == 0
    assert capsys.readouterr().err == ""
    easy, _ = json.loads(document.read_text())["results"]
    assert [(job["limit"], job["wait"]) for job in easy["jobs"]] == [(7200, 0), (None, 3540), (1800, 0)]


def test_names_in_the_guides_exist(capsys: pytest.CaptureFixture[str]) -> None:
    """Policies, mixes, options, scenarios and annotations in the guides exist in the program."""
    assert len(OUTPUTS) == 5
    assert set(WAITS_BY_POLICY) == {name.replace("-K", "-4") for name in POLICY_NAMES}
    assert next(iter(WAITS_BY_POLICY)) == DEFAULT_POLICY
    assert {name for name in MIXES if f"`{name}`" in SIMULATOR} == set(MIXES)
    assert main(["simulate", "--help"]) == 0
    text = capsys.readouterr().out
    assert [option for option in set(re.findall(r"--[a-z][a-z-]+", SIMULATOR)) if option not in text] == []
    scenarios = set(re.findall(r"demo/scenarios/[a-z0-9.-]+", SIMULATOR))
    assert len(scenarios) >= 4
    assert [name for name in scenarios if not (PROJECT / name).is_file()] == []
    assert [
        name
        for name in (MAX_RUN_ANNOTATION, DEFAULT_RUN_ANNOTATION, MAX_EXEC_TIME_LABEL, ZONE_LEVEL)
        if f"`{name}`" not in SCHEDULING
    ] == []


def test_the_smallest_example(tmp_path: Path) -> None:
    """The guide states when A and C start under EASY and under greedy."""
    found = re.findall(
        r"(demo/scenarios/backfill\.json) .* A start at (\d+) s and C at (\d+) s.* (\d+) s and (\d+) s\.", SIMULATOR
    )
    [(name, *told)] = found
    starts: list[str] = []
    for policy in ("easy", "greedy"):
        jobs = result(tmp_path, PROJECT / name, "--policy", policy, "--json-jobs")["jobs"]
        starts += [f"{one['runs'][0]['start']:.0f}" for kind in "AC" for one in jobs if one["name"] == kind]
    assert told == starts


def test_a_cluster_as_kubectl_prints_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program reads all kinds of the guide's `kubectl get` as a trace, and warns about none."""
    [kinds, command] = re.findall(r"\$ kubectl get (\S+) .* > cluster.yaml\n\$ zonewise (.+)\n", FROM_KUEUE)[0]
    items = [as_served(one) for one in yaml.safe_load_all(CLUSTER)]
    assert {plural(one["kind"]) for one in items} == set(kinds.split(","))
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items}))
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(command)) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert re.search(r"^jobs done +2 +2$", said.out, re.MULTILINE)


def test_the_default_has_shorter_waits_than_greedy() -> None:
    """In the table, its mean wait is less than that of greedy, and its longest wait less than a fifth of greedy's."""
    (mean, _, longest), (greedy_mean, _, greedy_longest) = (
        map(float, WAITS_BY_POLICY[one]) for one in (DEFAULT_POLICY, "greedy")
    )
    assert mean < greedy_mean
    assert longest < greedy_longest / 5


@logs
def test_how_early_reserved_jobs_start(tmp_path: Path) -> None:
    easy = summary(tmp_path, KTH, "--policy", "easy")
    assert easy["promises"]["broken"] == 0
    assert f"by {easy['promises']['earlyMean'] / 60:.0f} min on average" in SCHEDULING


@pytest.mark.long
@logs
def test_accuracy_of_forecasts(tmp_path: Path) -> None:
    """Each forecast needs 48 sample paths, which take half a minute per policy."""
    easy, ours = (summary(tmp_path, KTH, "--policy", policy, "--forecast") for policy in ("easy", DEFAULT_POLICY))
    stated = re.findall(
        r"half of the forecasts are within (\d+) minutes of the start, and (\d+) % of\s+the starts", SCHEDULING
    )
    assert stated == [errors_of_forecasts(ours)]
    assert re.findall(r"Under `easy`, these figures are (\d+) minutes and (\d+) %", SCHEDULING) == [
        errors_of_forecasts(easy)
    ]


def errors_of_forecasts(found: Any) -> tuple[str, str]:
    """Return the median error in minutes, and the percentage of starts within the forecast."""
    return f"{found['forecast']['median'] / 60:.0f}", f"{found['forecast']['within'] * 100:.0f}"


def test_bounds_of_the_thousand_gangs() -> None:
    """The guide states the bounds of policies with and without knowledge of actual run times."""
    told = re.findall(r"done after ([\d.]+) min on average.* ([\d.]+) min would be possible", SIMULATOR)
    at_once_told = r"the makespan is ([\d.]+) min. It is ([\d.]+) min in a random order, and could be ([\d.]+) min"
    told += re.findall(at_once_told, SIMULATOR)
    paced, at_once = ([f"{one / 60:.1f}" for one in gangs(f"thousand-jobs{kind}.json")] for kind in ("-paced", ""))
    assert told == [tuple(paced[1:]), tuple(at_once)]
    assert f"makespan                          {paced[0]} min" in SIMULATOR


@pytest.mark.skipif(not CASES.exists(), reason=ABSENT)
def test_cases_of_kueue() -> None:
    """The guide states the number of recorded cases, and the tests omit none of them."""
    files = ("drs", "flavor", "preemption", "schedule", "tas", "schedule_tas")
    counts = [len(json.loads((CASES / f"kueue_{name}_cases.json").read_text())["cases"]) for name in files]
    assert f"all {sum(counts)} cases recorded from Kueue's own tests" in SCHEDULING


# --- helpers


def result(place: Path, *arguments: object) -> Any:
    """Return the JSON result of `zonewise simulate` for one policy."""
    file = place / "out.json"
    assert main(["simulate", *map(str, arguments), "--quiet", "--json", str(file)]) == 0
    return json.loads(file.read_text())["results"][0]


def summary(place: Path, *arguments: object) -> Any:
    return result(place, *arguments)["summary"]


CLUSTER = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team, annotations: {zonewise.dev/default-run-seconds: 8h}}
spec:
  cohortName: all
  namespaceSelector: {}
  queueingStrategy: BestEffortFIFO
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: default, resources: [{name: cpu, nominalQuota: "64"}]}]
status: {pendingWorkloads: 1, flavorsUsage: [{name: default, resources: [{name: cpu, total: "64", borrowed: "0"}]}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Cohort
metadata: {name: all}
spec: {}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: main, namespace: ml}
spec: {clusterQueue: team, stopPolicy: None}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default}
spec: {nodeLabels: {pool: batch}, topologyName: racks}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Topology
metadata: {name: racks}
spec: {levels: [{nodeLabel: rack}, {nodeLabel: kubernetes.io/hostname}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: urgent}
value: 1000
description: before a deadline
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: system-node-critical}
value: 2000001000
description: Used for system critical pods that must not be moved from their current node.
preemptionPolicy: PreemptLowerPriority
---
apiVersion: v1
kind: LimitRange
metadata: {name: defaults, namespace: ml}
spec: {limits: [{type: Container, defaultRequest: {cpu: "1"}, max: {cpu: "32"}}]}
---
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: kata}
handler: kata
overhead: {podFixed: {cpu: 250m}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: done, namespace: ml, labels: {kueue.x-k8s.io/queue-name: main}}
spec: {parallelism: 8, template: {spec: {containers: [{name: main, resources: {requests: {cpu: "8"}}}]}}}
status: {startTime: "2026-01-01T00:00:05Z", completionTime: "2026-01-01T00:10:00Z", succeeded: 8}
---
apiVersion: batch/v1
kind: Job
metadata: {name: waits, namespace: ml, labels: {kueue.x-k8s.io/queue-name: main, kueue.x-k8s.io/priority-class: urgent}}
spec:
  suspend: true
  parallelism: 4
  activeDeadlineSeconds: 3600
  template: {spec: {containers: [{name: main, resources: {requests: {cpu: "4"}}}]}}
status: {}
---
apiVersion: v1
kind: Node
metadata: {name: node-1, labels: {kubernetes.io/hostname: node-1, rack: a, pool: batch}}
spec: {podCIDR: 10.0.0.0/24}
status:
  allocatable: {cpu: "64", memory: 256Gi, pods: "110"}
  conditions: [{type: Ready, status: "True"}]
"""


def as_served(one: Any) -> Any:
    """Return an object as an API server returns it."""
    served = {"uid": one["metadata"]["name"], "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {**one, "metadata": {**one["metadata"], **served, "managedFields": [{"manager": "kubectl"}]}}


def plural(kind: str) -> str:
    """Return the name that kubectl uses for the objects of a kind."""
    return (f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}{'es' if kind.endswith('s') else 's'}").lower()


def gangs(name: str) -> tuple[float, float, float]:
    """Return a scenario's makespan under the default, and the bounds of its gangs, of which 500 fit at once."""
    case = load_scenario(str(PROJECT / "demo" / "scenarios" / name))
    assert isinstance(case, Scenario)
    starts = Latency(1, 2, enforce_deadlines=True)
    found = summarise(simulate_cluster(case, policy_named(DEFAULT_POLICY), starts))
    assert (found.jobs, found.failed) == (len(case.arrivals), 0)
    waits = pod_start_delays(starts, [one.workload.total_requests[0].pods for one in case.arrivals])
    pairs = zip(case.arrivals, waits, strict=True)
    every = [Gang(one.workload.created_at, wait + one.run_time) for one, wait in pairs if one.kind == "job"]
    return found.makespan, earliest_end_online(every, 500), earliest_end_offline(every, 500)
