"""The loader: the kind of a source is recognized by its content."""

from __future__ import annotations

import gzip
import json
import os
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zonewise_scheduler.simulator.inputs.loader import load_fleet, load_scenario
from zonewise_scheduler.simulator.inputs.source_files import InputError
from zonewise_scheduler.simulator.scenario import Scenario
from zonewise_scheduler.simulator.swf import SwfLog

if TYPE_CHECKING:
    from collections.abc import Callable

SCENARIOS = Path(__file__).parents[5] / "demo/scenarios"

LOG = "; MaxProcs: 100\n" + "".join(
    f"{number} {10 * number} 0 30 {number} -1 -1 {number} 60 -1 1 3 4 5 6 -1 -1 -1\n" for number in range(1, 10)
)
FLEET: dict[str, Any] = {"levels": [{"name": "n", "count": 4}], "kinds": [{"name": "k", "cpu": 8}]}
JOBS: dict[str, Any] = {"nodes": "10x8", "jobs": [{"name": "j", "count": 5, "every": 1, "run": 60}]}


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str, str | bytes], str]:
    def write(name: str, content: str | bytes) -> str:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


def scenario(source: str, nodes: str | None = None, **options: Any) -> Scenario:
    outcome = load_scenario(source, nodes, **options)
    assert isinstance(outcome, Scenario)
    return outcome


Write = Any
"""The type of the fixture `file`."""


@pytest.mark.parametrize("name", ["a.swf", "a.txt", "a"])
@pytest.mark.parametrize("content", [LOG, LOG.partition("\n")[2], gzip.compress(LOG.encode())])
def test_a_log_is_recognized_by_its_content(file: Write, name: str, content: str | bytes) -> None:
    outcome = load_scenario(file(name, content))
    assert isinstance(outcome, SwfLog)
    assert len(outcome.jobs) == 9


def test_a_log_on_a_number_of_processors_is_a_log(file: Write) -> None:
    outcome = load_scenario(file("a.swf", LOG), "64", jobs=3)
    assert isinstance(outcome, SwfLog)
    assert (outcome.processors, [entry.job_number for entry in outcome.jobs]) == (64, [1, 2, 3])


def test_a_log_on_nodes_is_a_scenario(file: Write) -> None:
    """Each processor is a pod of one CPU, or pods are as wide as a node."""
    outcome = scenario(file("a.swf", LOG), "25x4")
    assert outcome.nodes is not None
    assert len(outcome.nodes) == 25
    last = outcome.arrivals[-1]
    assert (last.workload.name, last.workload.created_at, last.run_time, last.workload.walltime) == ("9", 90, 30, 60)
    assert last.workload.history_keys == (3, 6, 5)
    assert [(entry.pods, entry.requests) for entry in last.workload.pod_sets] == [(9, {"cpu": 1000})]
    whole = scenario(file("a.swf", LOG), "25x4", whole_nodes=True)
    sets = [
        [(entry.name, entry.pods, entry.requests["cpu"]) for entry in job.workload.pod_sets] for job in whole.arrivals
    ]
    assert sets[2:9:3] == [
        [("main", 1, 3000)], [("main", 1, 4000), ("rest", 1, 2000)], [("main", 2, 4000), ("rest", 1, 1000)],
    ]  # fmt: skip


def test_a_damaged_line_of_a_log_is_reported(file: Write) -> None:
    outcome = scenario(file("a.swf", LOG + "1 2 3\n" + LOG), "25x4")
    assert len(outcome.arrivals) == 9
    assert outcome.problems[0] == "a.swf: line 11: line: 3 fields rather than 18"
    assert "a.swf: line 21: field 1 (job number): 9: duplicate: the first one counts" in outcome.problems


def test_a_job_file_runs_on_its_own_nodes_or_on_those_of_the_option(file: Write) -> None:
    path = file("jobs.json", json.dumps(JOBS))
    own = scenario(path)
    assert own.nodes is not None
    assert len(own.nodes) == 10
    other = scenario(path, "3x4")
    assert other.nodes is not None
    assert len(other.nodes) == 3
    assert len(own.arrivals) == len(other.arrivals) == 5


def test_the_nodes_of_a_job_file_may_be_described_in_it_or_in_another_file(file: Write) -> None:
    fleet = FLEET
    inside = scenario(file("jobs.json", json.dumps(JOBS | {"nodes": fleet})))
    jobs = {"jobs": JOBS["jobs"]}
    file("all/fleet.yaml", yaml.safe_dump(fleet))
    beside = scenario(str(Path(file("all/jobs.yaml", yaml.safe_dump(jobs))).parent))
    together = scenario(file("both.yaml", yaml.safe_dump_all([fleet, jobs])))
    apart = scenario(file("jobs2.json", json.dumps(jobs)), file("fleet.yaml", yaml.safe_dump(fleet)))
    for outcome in (inside, beside, together, apart):
        assert outcome.nodes is not None
        assert len(outcome.nodes) == 4
        assert len(outcome.arrivals) == 5


def test_only_the_first_jobs(file: Write) -> None:
    outcome = scenario(file("jobs.json", json.dumps(JOBS)), jobs=2)
    assert [entry.workload.name for entry in outcome.arrivals] == ["j-0", "j-1"]


def test_exact_limits_are_the_true_run_times(file: Write) -> None:
    """A job without run time declares one second, as in a log."""
    outcome = scenario(
        file("j.json", json.dumps(JOBS | {"jobs": [{"run": 60, "limit": 90}, {"name": "b", "run": 0}]})), exact=True
    )
    assert [entry.workload.walltime for entry in outcome.arrivals] == [60, 1]
    assert all(entry.workload.walltime == entry.run_time for entry in scenario("hpc", jobs=20, exact=True).arrivals)


def test_exact_limits_include_the_time_in_which_pods_start() -> None:
    delayed = scenario("hpc", jobs=20, exact=True, start_delay=2.5)
    assert all(entry.workload.walltime == entry.run_time + 2.5 for entry in delayed.arrivals)


def test_a_mix_is_selected_by_name_unless_there_is_a_file_of_this_name(
    file: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(scenario("batch", "100x16", jobs=30, load=0.5, seed=3).arrivals) == 30
    file("batch", json.dumps(JOBS))
    monkeypatch.chdir(tmp_path)
    assert len(scenario("batch").arrivals) == 5


def test_the_described_fleet_of_65000_nodes() -> None:
    outcome = load_fleet(str(SCENARIOS / "fleet-65000.yaml"))
    assert len(outcome.nodes) == len(outcome.states) == 65_000
    assert outcome.total_capacity["nvidia.com/gpu"] == 80_000
    assert len(set(map(id, outcome.states.values()))) == 2, "nodes of a kind share the state of their zones"


@pytest.mark.parametrize("path", sorted(SCENARIOS.iterdir()), ids=lambda path: path.name)
def test_the_files_in_the_repository_are_valid(path: Path) -> None:
    if path.name.startswith("fleet"):
        assert load_fleet(str(path)).problems == ()
    else:
        assert scenario(str(path)).problems == ()


def test_the_zones_of_nodes_are_part_of_the_scenario() -> None:
    outcome = scenario("ai", str(SCENARIOS / "fleet-65000.yaml"), jobs=5)
    assert len(outcome.states) == 65_000


@pytest.mark.parametrize(
    ("name", "content", "reported"),
    [
        ("a.yaml", "color: red\n", "a.yaml: its fields are color; use an SWF log, records of runs"),
        ("a.yaml", "", "it is empty; can be"),
        ("a.yaml", "{}\n", "its fields are none; use"),
        ("a.yaml", "levels: []\nkinds: []\n", "levels: is missing"),
        ("a.yaml", json.dumps(FLEET), "it describes nodes: use it with --nodes; can be"),
        ("a.json", json.dumps(JOBS | {"nodes": "10x0"}), "nodes: must describe 1 to 1000000 nodes"),
        ("a.yaml", "- 3\n", "must contain objects: 3"),
        ("a.yaml", "a: [", "neither YAML nor JSON"),
        ("a.json", json.dumps({"jobs": JOBS["jobs"]}), "nodes: there are none; see --nodes"),
        ("a.json", json.dumps(JOBS | {"nodes": "many"}), "nodes: 'many'; see --nodes"),
        ("a.json", json.dumps(JOBS | {"nodes": {"levels": []}}), "levels: is missing"),
        ("a.json", json.dumps([JOBS, JOBS]), "jobs of one source can be combined only with nodes"),
        ("a.swf", "", ""),
    ],
)
def test_an_error_names_the_file_and_the_supported_formats(file: Write, name: str, content: str, reported: str) -> None:
    path = file(name, content)
    if not reported:
        assert isinstance(load_scenario(path), SwfLog)
        return
    with pytest.raises(InputError) as raised:
        load_scenario(path)
    assert str(raised.value).startswith(path)
    assert reported in str(raised.value)


@pytest.mark.parametrize(
    ("options", "reported"),
    [
        ({"jobs": 0}, "jobs: not above 0: 0"),
        ({"seed": -1}, "seed: negative: -1"),
        ({"load": 0.5}, "load: only a mix has a load: 0.5"),
        ({"whole_nodes": True}, "whole-nodes: only a log has jobs of this width"),
        ({"nodes": "no.yaml"}, r"^--nodes no\.yaml: is neither an existing file nor a known name: use NUMBER"),
        ({"nodes": "0"}, "--nodes: must describe 1 to 1000000 nodes"),
        ({"nodes": ""}, "^--nodes '': is neither an existing file nor a known name"),
        ({"nodes": "n" * 300}, "^n{300}: cannot be read|^--nodes n{300}: is neither an existing file nor a known name"),
    ],
)
def test_invalid_options_are_errors(file: Write, options: dict[str, Any], reported: str) -> None:
    with pytest.raises(InputError, match=reported):
        load_scenario(file("jobs.json", json.dumps(JOBS)), **options)


def test_pods_of_a_mix_are_not_as_wide_as_nodes() -> None:
    with pytest.raises(InputError, match="whole-nodes: only a log has jobs of this width"):
        load_scenario("hpc", whole_nodes=True)


def test_a_generator_has_its_own_nodes() -> None:
    with pytest.raises(InputError, match="nodes: a generator file describes its nodes itself"):
        load_scenario(str(SCENARIOS / "kueue-tas.yaml"), "100")


def test_a_file_without_nodes_is_not_a_fleet(file: Write) -> None:
    with pytest.raises(InputError, match="contains no nodes"):
        load_fleet(file("jobs.json", json.dumps(JOBS)))


@pytest.mark.parametrize("name", ["", "n" * 300])
def test_an_impossible_file_name_is_an_error(name: str) -> None:
    with pytest.raises(InputError, match=r"is neither an existing file nor a known name|cannot be read"):
        load_scenario(name)


@pytest.mark.parametrize("content", [LOG, gzip.compress(LOG.encode()), json.dumps(JOBS)])
def test_standard_input_is_read_like_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | bytes
) -> None:
    """The same holds for pipes, which can be read only once."""
    built = content if isinstance(content, bytes) else content.encode()
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(built)))
    from_input = load_scenario("-")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(pipe.write_bytes, built)
        from_pipe = load_scenario(str(pipe))
        writing.result()
    assert _names(from_input) == _names(from_pipe) != []


def _names(outcome: Scenario | SwfLog) -> list[str]:
    if isinstance(outcome, SwfLog):
        return [str(entry.job_number) for entry in outcome.jobs]
    return [entry.workload.name for entry in outcome.arrivals]


def test_standard_input_has_a_name_in_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(b"a: [")))
    with pytest.raises(InputError, match=r"^standard input: neither YAML nor JSON"):
        load_scenario("-")


@pytest.mark.parametrize("name", ["a.gz", "a.swf.gz"])
def test_a_compressed_file_that_ends_before_its_content_is_damaged(file: Write, name: str) -> None:
    with pytest.raises(InputError, match="cannot be read: Compressed file ended"):
        load_scenario(file(name, gzip.compress(LOG.encode())[:12]))


def test_an_unknown_source_is_an_error() -> None:
    with pytest.raises(
        InputError, match=r"^no-such: is neither an existing file nor a known name: use .* a mix \(hpc, ai, batch\)"
    ):
        load_scenario("no-such")


# --- damage

_LEAVES = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5)
_KEYS = st.sampled_from(
    [
        "jobs",
        "nodes",
        "queues",
        "levels",
        "kinds",
        "cohorts",
        "queuesSets",
        "workloadsSets",
        "workloads",
        "className",
        "count",
        "name",
        "run",
        "pods",
        "cpu",
        "requests",
        "uniform",
        "choice",
        "apiVersion",
        "kind",
        "metadata",
        "spec",
        "items",
        "zones",
        "template",
        "nominalQuota",
        "request",
        "runtimeMs",
        "creationIntervalMs",
        "topology",
        "annotations",
        "share",
        "label",
        "status",
        "labels",
        "taints",
        "tolerations",
        "resources",
    ]
)
_ANY = st.recursive(
    _LEAVES | st.sampled_from(["Job", "Workload", "ClusterQueue", "Node", "NodeResourceTopology", "Topology", "3x4"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=5),
    max_leaves=30,
)
_SOUND: list[dict[str, Any]] = list(
    yaml.safe_load_all("""
nodes: 10x8
jobs: [{name: j, count: 5, every: 1, run: 60}]
---
levels: [{name: n, count: 4}]
kinds: [{name: k, cpu: 8, zones: 2}]
---
cohorts:
- className: c
  queuesSets:
  - className: q
    nominalQuota: 1
    workloadsSets: [{count: 1, creationIntervalMs: 1, workloads: [{className: w, runtimeMs: 1, request: 1}]}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: j}
spec:
  activeDeadlineSeconds: 5
  template: {spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}}
---
apiVersion: topology.node.k8s.io/v1alpha2
kind: NodeResourceTopology
metadata: {name: n}
zones: [{name: node-0, type: Node, resources: [{name: cpu, capacity: "4", allocatable: "4", available: "4"}]}]
---
apiVersion: v1
kind: Node
metadata: {name: n}
status: {allocatable: {cpu: 4}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: q}
spec:
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: f, resources: [{name: cpu, nominalQuota: 1}]}]
""")
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths to all parts of a value."""
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inner = list(cast("dict[str, Any]", value).items())
    elif isinstance(value, list):
        inner = list(enumerate(cast("list[Any]", value)))
    return [path] * bool(path) + [index for key, entry in inner for index in _places(entry, (*path, key))]


@st.composite
def _damaged(draw: st.DrawFn) -> object:
    """Draw a valid file in which one or two parts are replaced."""
    built = json.loads(json.dumps([entry for entry in _SOUND if draw(st.booleans())]))
    for _ in range(draw(st.integers(0, 2))):
        indices = _places(built)
        if indices:
            *path, last = draw(st.sampled_from(indices))
            at = built
            for key in path:
                at = at[key]
            at[last] = draw(_ANY)
    return built


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(_damaged() | _ANY, st.sampled_from([None, "3x4"]))
def test_damage_raises_only_input_errors(tmp_path: Path, content: object, nodes: str | None) -> None:
    """Whatever a file contains, the result is a scenario with jobs, or an error that begins with its location."""
    path = tmp_path / "a.yaml"
    path.write_text(yaml.safe_dump(content))
    outcome = loaded_or_error(str(path), nodes)
    if isinstance(outcome, Scenario):
        assert outcome.arrivals
        assert {entry.queue for entry in outcome.arrivals} <= {entry.name for entry in outcome.queues}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_a_log_or_an_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a"
    path.write_bytes(content)
    assert isinstance(loaded_or_error(str(path)), SwfLog | InputError)


def loaded_or_error(path: str, nodes: str | None = None) -> Scenario | SwfLog | InputError:
    """Return what is loaded from a file, or the error, which begins with its location and has a message."""
    try:
        return load_scenario(path, nodes)
    except InputError as error:
        outcome = error
    assert str(outcome).startswith(f"{outcome.where}: ")
    assert len(str(outcome)) > len(outcome.where) + 2
    return outcome


def test_standard_input_is_read_once() -> None:
    with pytest.raises(InputError, match="--nodes: standard input is already the trace"):
        load_scenario("-", "-")
