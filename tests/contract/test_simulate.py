"""`zonewise simulate`: traces as input, tables and files as output, mistakes in one line, and the whole program."""

from __future__ import annotations

import gzip
import json
import os
import shlex
import signal
import subprocess
import sys
from argparse import ArgumentParser
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pytest

from support.cli_runner import CliRunner
from zonewise_scheduler.backfill.policies import DEFAULT_POLICY, POLICY_NAMES
from zonewise_scheduler.commands import simulate
from zonewise_scheduler.simulator.inputs.mixes import DEFAULT_JOBS, MIXES
from zonewise_scheduler.simulator.report import progress

if TYPE_CHECKING:
    from collections.abc import Generator

HEADER = "; MaxProcs: 8\n"
TRACES = Path(__file__).resolve().parents[3] / "shared" / "traces"
KTH = TRACES / "KTH-SP2.easy.swf.gz"


def line(number: int, submitted: int, run: int, processors: int, limit: int, status: int = 1) -> str:
    """Return the line of a log for a job."""
    return f"{number} {submitted} -1 {run} {processors} -1 -1 {processors} {limit} -1 {status} 1 1 1 1 -1 -1 -1\n"


LOG = HEADER + "".join(
    [line(1, 0, 100, 8, 100), line(2, 10, 100, 8, 200), line(3, 20, 50, 4, 60), line(4, 30, 50, 4, 60)]
)
"""Job 1 needs all processors; under shortest first, 3 and 4 precede 2."""
SMALL: dict[str, Any] = {
    "name": "small",
    "nodes": "2x4",
    "jobs": [
        {"name": "short", "count": 4, "pods": 2, "requests": {"cpu": 2}, "run": 10, "limit": 20},
        {"name": "late", "pods": 1, "requests": {"cpu": 1}, "run": 30, "limit": 20},
    ],
}


class Simulating(CliRunner):
    """A directory that contains a log, and the command that runs there."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        super().__init__(directory, capsys, "simulate")
        self.log = self.write("log.swf", LOG)

    def json(self, *arguments: object) -> Any:
        """Return the JSON output, which must be the only output."""
        printed = self.run(*arguments, "--json")
        assert (printed.status, printed.err) == (0, "")
        return json.loads(printed.out)

    def table(self, *arguments: object) -> list[str]:
        """Return the lines of the table with single spaces."""
        printed = self.run(*arguments)
        assert (printed.status, printed.err) == (0, "")
        return [" ".join(entry.split()) for entry in printed.out.splitlines()]


@pytest.fixture
def simulating(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Simulating:
    monkeypatch.delenv("COLUMNS", raising=False)
    return Simulating(tmp_path, capsys)


# --- a log on one pool


def test_a_log(simulating: Simulating) -> None:
    """Under shortest first, job 2 waits for 140 s, and jobs 3 and 4 for 80 and 70 s."""
    table = simulating.table(simulating.log)
    assert table[:3] == ["log.swf: 4 jobs, 8 processors", "", DEFAULT_POLICY]
    assert table[3:9] == [
        "jobs done 4",
        "wait",
        "mean 72.5 s",
        "median 75.0 s",
        "95th percentile 2.18 min",
        "longest 2.33 min",
    ]
    assert "processors 100.0 %" in table


def test_policies_side_by_side(simulating: Simulating) -> None:
    """Policies are in the requested order, each once; that of --policy is the first."""
    table = simulating.table(simulating.log, "--policy", "easy", "--compare", f"{DEFAULT_POLICY},easy,greedy")
    assert table[2] == f"easy {DEFAULT_POLICY} greedy"
    assert "longest 3.00 min 2.33 min 3.00 min" in table


@pytest.mark.parametrize("name", [*(entry for entry in POLICY_NAMES if entry != "depth-K"), "depth-3"])
def test_every_policy_has_its_numbers(simulating: Simulating, name: str) -> None:
    assert simulating.json(simulating.log, "--policy", name)["results"][0]["summary"]["jobs"] == 4


def test_a_compressed_log_is_the_same(simulating: Simulating) -> None:
    (simulating.directory / "log.gz").write_bytes(gzip.compress(LOG.encode()))
    zipped, text = simulating.json(simulating.directory / "log.gz"), simulating.json(simulating.log)
    assert zipped["results"][0]["summary"]["waitMean"] == text["results"][0]["summary"]["waitMean"] == 72.5


def test_another_number_of_processors(simulating: Simulating) -> None:
    printed = simulating.run(simulating.log, "--nodes", 4, "--compare", "easy,greedy")
    assert printed.err == "log.swf: 2 jobs that fit nowhere:\n  job 1: 8 processors\n  job 2: 8 processors\n"
    assert "jobs rejected" in printed.out
    assert simulating.table(simulating.log, "--nodes", 16)[0] == "log.swf: 4 jobs, 16 processors"


def test_exact_run_times_and_the_first_jobs(simulating: Simulating) -> None:
    """Job 2 declares 200 s, but has a limit of 100 s under --exact."""
    jobs = simulating.json(simulating.log, "--exact", "--jobs", 2, "--json-jobs")["results"][0]["jobs"]
    assert [entry["limit"] for entry in jobs] == [100, 100]


def test_when_a_reservation_is_made(simulating: Simulating) -> None:
    """Job 2, which otherwise waits for 140 s, starts first as soon as it has a reservation."""
    for after, seconds, wait in (("2m", 120, 140), ("90", 90, 90), ("never", None, 140)):
        outcome = simulating.json(simulating.log, "--reserve-after", after, "--json-jobs")["results"][0]
        assert (outcome["rules"]["reserveAfter"], outcome["jobs"][1]["wait"]) == (seconds, wait)


def test_forecasts_are_compared_with_the_outcome(simulating: Simulating) -> None:
    outcome = simulating.json(simulating.log, "--forecast", 1, "--json-jobs")["results"][0]
    assert outcome["summary"]["forecast"]["jobs"] == 3
    assert outcome["jobs"][2]["told"]["earliest"] <= 100
    assert "forecasts" not in simulating.table(simulating.log)


def test_damaged_lines_are_counted_and_the_first_are_named(simulating: Simulating) -> None:
    """Other lines are not affected; --verbose names all damaged lines, --quiet none."""
    damaged = simulating.write(
        "damaged.swf", LOG + "1 2 3\n" * 4 + line(5, 40, -1, 4, 60) * 3 + line(4, 50, 5, 1, 5, status=2)
    )
    printed = simulating.run(damaged)
    assert printed.status == 0
    assert printed.err.splitlines() == [
        "damaged.swf: 7 lines left out:",
        "  line 6: line: 3 fields rather than 18",
        "  line 7: line: 3 fields rather than 18",
        "  line 8: line: 3 fields rather than 18",
        "  line 9: line: 3 fields rather than 18",
        "  line 10: field 4 (run time): -1",
        "  and 2 more (all with --verbose)",
        "damaged.swf: 1 line with parts of jobs ignored: the log also has lines for the whole jobs",
    ]
    assert "  line 12: field 4 (run time): -1" in simulating.run(damaged, "--verbose").err
    assert simulating.run(damaged, "--quiet").err == ""
    outcome = json.loads(simulating.run(damaged, "--json").out)["scenario"]
    assert (len(outcome["problems"]), outcome["partial"]) == (7, 1)
    on_nodes = simulating.run(damaged, "--nodes", "2x4", "--json")
    assert "damaged.swf: 1 line with parts of jobs ignored" in on_nodes.err
    assert json.loads(on_nodes.out)["scenario"]["partial"] == 1


# --- a cluster


def test_jobs_on_nodes(simulating: Simulating) -> None:
    """Four jobs of 4 CPUs share 8 CPUs; a job that exceeds its declared time is killed, except with --no-deadlines."""
    jobs = simulating.write("jobs.json", json.dumps(SMALL))
    table = simulating.table(jobs)
    assert table[0].startswith("jobs.json: 5 jobs, 8 cpu")
    assert table[3:5] == ["jobs done 4", "jobs failed 1"]
    assert "mean wait of" in table
    assert "jobs failed 1" not in simulating.table(jobs, "--no-deadlines")


def test_starts_on_nodes_are_forecast_too(simulating: Simulating) -> None:
    """Jobs that wait for others of 10 s each get a forecast."""
    jobs = simulating.write("jobs.json", json.dumps(SMALL))
    outcome = simulating.json(jobs, "--forecast", 1, "--json-jobs")["results"][0]
    assert outcome["summary"]["forecast"]["jobs"] == sum(entry["told"] is not None for entry in outcome["jobs"]) > 0


def test_jobs_that_cannot_run_on_nodes_are_named_with_the_reason(simulating: Simulating) -> None:
    groups = [{"name": "wide", "requests": {"cpu": 5}}, {"name": "gpu", "requests": {"nvidia.com/gpu": 1}}]
    jobs = simulating.write(
        "jobs.json", json.dumps({"nodes": "2x4", "jobs": [{"run": 1, **entry} for entry in groups]})
    )
    printed = simulating.run(jobs, "--compare", "easy,fifo")
    assert printed.status == 0
    lines = printed.err.splitlines()
    assert lines[0] == "jobs.json: 2 jobs that fit nowhere:"
    assert lines[1].startswith("  job wide: flavor nodes: ")
    assert lines[2].startswith("  job gpu: nvidia.com/gpu: the queue has no quota for it")
    assert "jobs rejected" in printed.out


def test_a_live_cluster_has_delays(simulating: Simulating) -> None:
    jobs = simulating.write("jobs.json", json.dumps(SMALL))
    delays = ("--start-latency", "1-2s", "--rate", "50/100", "--release-latency", "500ms", "--grace", 30)
    outcome = simulating.json(jobs, *delays, "--seed", 7)
    assert outcome["scenario"]["options"] == {
        "seed": 7, "startLatency": [1, 2], "rate": [50, 100], "releaseLatency": 0.5, "grace": 30,
    }  # fmt: skip
    summary, slow = (entry["results"][0]["summary"] for entry in (simulating.json(jobs), outcome))
    assert slow["readyMean"] > summary["readyMean"] + 1


def test_true_run_times_leave_time_for_pods_to_start(simulating: Simulating) -> None:
    delays = ("--exact", "--start-latency", "1-2s")
    summary = simulating.json("hpc", "--nodes", "16x64", "--jobs", 20, *delays)["results"][0]["summary"]
    assert (summary["jobs"], summary["failed"]) == (20, 0)


def test_a_log_on_nodes(simulating: Simulating) -> None:
    table = simulating.table(simulating.log, "--nodes", "2x4", "--policy", "greedy")
    assert table[0].startswith("log.swf: 4 jobs, 8 cpu")


@pytest.mark.parametrize("mix", MIXES)
def test_mixes(simulating: Simulating, mix: str) -> None:
    """Equal seeds give equal results; different seeds give different ones."""
    first, again, other = (
        simulating.json(mix, "--jobs", 20, "--load", 0.5, "--seed", seed, "--policy", "greedy")["results"][0]["summary"]
        for seed in (1, 1, 2)
    )
    first.pop("decisionsPerSecond")
    again.pop("decisionsPerSecond")
    assert first == again
    assert first["makespan"] != other["makespan"]


# --- output


def test_json_to_a_file_leaves_the_table(simulating: Simulating) -> None:
    file = simulating.directory / "out.json"
    assert simulating.table(simulating.log, "--json", file)[:-1] == simulating.table(simulating.log)[:-1]
    assert json.loads(file.read_text())["schemaVersion"] == "zonewise.dev/simulation/v1"


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_a_picture(simulating: Simulating, ending: str) -> None:
    pytest.importorskip("matplotlib")
    file = simulating.directory / f"out.{ending}"
    assert simulating.table(simulating.log, "--plot", file, "--compare", "easy,greedy")[2] == "easy greedy"
    assert file.read_bytes()[:5] in (b"<?xml", b"\x89PNG\r")
    assert sorted(os.listdir(simulating.directory)) == ["log.swf", f"out.{ending}"]


def test_progress_is_for_terminals(simulating: Simulating, monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress is one line on standard error, which is erased at the end; the table does not change."""
    monkeypatch.setattr(progress, "INITIAL_DELAY", 0)
    monkeypatch.setattr(progress, "_PERIOD", 0)
    many = simulating.write("many.swf", HEADER + "".join(line(entry, entry, 5, 2, 9) for entry in range(200)))
    plain = simulating.run(many)
    assert plain.err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    drawn = simulating.run(many)
    assert drawn.out.splitlines()[:-2] == plain.out.splitlines()[:-2]
    assert f" %  0 s left  {DEFAULT_POLICY}  " in drawn.err
    assert "\n" not in drawn.err
    assert drawn.err.endswith("\r")
    assert simulating.run(many, "--quiet").err == ""


# --- mistakes


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (("--policy", "best"), "policy: best: unknown policy; the policies are shortest-reserving, fifo, "),
        (("--compare", "easy,depth-K"), "policy: depth-K: unknown policy"),
        (("--compare", "easy,,fifo"), "argument --compare: 'easy,,fifo' is not a list of names"),
        (("--reserve-after", "soon"), "argument --reserve-after: 'soon' is not a duration, such as 90s, 15m"),
        (("--policy", "easy", "--reserve-after", "1h"), "--reserve-after works only with shortest-reserving"),
        (("--nodes", "many"), "--nodes many: is neither an existing file nor a known name: use"),
        (("--nodes", "0"), "--nodes: not between 1 and "),
        (("--nodes", "99999999999999999999999"), "nodes: not between 1 and "),
        (("--jobs", "0"), "argument --jobs: '0' is not a positive whole number"),
        (("--load", "2"), "--load: only a mix has a load: 2"),
        (("--seed", "x"), "argument --seed: invalid int value: 'x'"),
        (("--start-latency", "1s"), "--start-latency does not work for a log on one pool of processors"),
        (("--grace", "never"), "argument --grace: 'never' is not a finite duration, such as 90s, 15m, 24h or 7d"),
        (("--release-latency", "never"), "argument --release-latency: 'never' is not a finite duration"),
        (("--namespace", "a"), "--namespace works only with --on-cluster or --gather"),
        (("--whole-nodes",), "--whole-nodes does not work for a log on one pool of processors: also set --nodes"),
        (("--no-deadlines",), "--deadlines does not work for a log on one pool"),
        (("--rate", "fast"), "argument --rate: 'fast' is not a rate, such as 50/100"),
        (("--plot", "out.pdf"), "out.pdf: .pdf: pictures are .svg or .png"),
        (("--plot", "/no/such/place/out.svg"), "/no/such/place/out.svg: there is no directory /no/such/place"),
        (("--json", "/"), "/: is a directory"),
        (("--json", "n" * 300), "File name too long"),  # raised by pathlib before Python 3.14, later by open()
        (("--json", "out.svg", "--plot", "out.svg"), "out.svg: is also the file of the JSON: write the picture to"),
        (("--json-jobs",), "--json-jobs works only with --json"),
        (("--frobnicate",), "unrecognized arguments: --frobnicate; see `zonewise simulate --help`"),
        (("--explain", "a/b"), "--explain works only with --replay"),
    ],
)
def test_mistakes(simulating: Simulating, arguments: tuple[str, ...], printed: str) -> None:
    """The error is one line that names the possible values, and no file is written."""
    assert printed in simulating.usage_error(simulating.log, *arguments)
    assert os.listdir(simulating.directory) == ["log.swf"]


def test_the_trace_is_not_overwritten(simulating: Simulating) -> None:
    assert (
        simulating.usage_error(simulating.log, "--json", simulating.log)
        == f"{simulating.log}: is the trace, and is not overwritten"
    )
    assert (simulating.directory / "log.swf").read_text() == LOG


def test_no_file_is_written_into_the_directory_of_the_trace(simulating: Simulating, tmp_path: Path) -> None:
    """The next run would read the file."""
    directory = tmp_path / "objects"
    directory.mkdir()
    (directory / "jobs.yaml").write_text("jobs: []\n")
    for name in ("jobs.yaml", "results.json"):
        error = simulating.usage_error(str(directory), "--nodes", "2x4", "--json", str(directory / name))
        assert error == f"{directory / name}: is in the directory of the trace, and would be read as input"
    assert (directory / "jobs.yaml").read_text() == "jobs: []\n"


def test_a_directory_with_the_name_of_short_nodes_is_not_read(
    simulating: Simulating, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "2x4").mkdir()
    assert simulating.run("hpc", "--jobs", "3", "--nodes", "2x4", "--json", "2x4/out.json").status == 0
    assert (tmp_path / "2x4/out.json").exists()


@pytest.mark.parametrize(
    ("content", "printed"),
    [
        (None, "is neither an existing file nor a known name: use an SWF log, "),
        (HEADER, "contains no jobs"),
        (HEADER + "1 2 3\n", "contains no jobs: line 2: line: 3 fields rather than 18"),
        (LOG.removeprefix(HEADER), "header: neither MaxProcs nor MaxNodes is set: add --nodes PROCESSORS"),
        ("; MaxProcs: 1,024\n" + LOG, "line 1: MaxProcs: '1,024' is not a number: add --nodes PROCESSORS"),
        ("jobs: [{run: soon}]\nnodes: 2x4\n", "run"),
        ("a: [", "neither YAML nor JSON"),
    ],
)
def test_invalid_traces(simulating: Simulating, content: str | None, printed: str) -> None:
    """The error names the file and the problem."""
    trace = str(simulating.directory / "trace") if content is None else simulating.write("trace", content)
    error = simulating.usage_error(trace)
    assert error.startswith(f"{trace}: ")
    assert printed in error


@pytest.mark.parametrize("target", ["table", "json"])
def test_a_disk_that_is_full(simulating: Simulating, target: str) -> None:
    """The error is one line, and the exit status is that of other usage errors."""
    arguments = [] if target == "table" else ["--json", "/dev/full"]
    with open("/dev/full", "w") as full, program(simulating.log, *arguments, stdout=full) as process:
        _, err = process.communicate(timeout=300)
    printed = "cannot write to standard output" if target == "table" else "/dev/full: cannot be written"
    assert (process.returncode, err) == (2, f"zonewise: error: {printed}: No space left on device\n")


@pytest.mark.parametrize(
    ("missing", "extra", "arguments"), [("numpy", "scheduler", ()), ("matplotlib", "plot", ("--plot", "out.svg"))]
)
def test_libraries_that_are_not_installed(
    simulating: Simulating, missing: str, extra: str, arguments: tuple[str, ...]
) -> None:
    """The error names the extra that installs them."""
    hide = f"import sys, importlib.util as u; sys.modules[{missing!r}] = None; f = u.find_spec; "
    hide += f"u.find_spec = lambda name, *more: None if name == {missing!r} else f(name, *more); "
    code = hide + "from zonewise.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "simulate", simulating.log, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, cwd=simulating.directory)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.count("install") == 1
    assert missing in done.stderr
    assert f"install zonewise with the extra [{extra}]" in done.stderr


# --- help


def test_help_names_policies_and_mixes(simulating: Simulating) -> None:
    """The help lists every policy and mix, and its examples can be parsed."""
    assert tuple(simulate.POLICIES) == POLICY_NAMES
    assert tuple(simulate.MIXES) == tuple(MIXES)
    text = simulating.run("--help").out
    for name in (*POLICY_NAMES, *MIXES):
        assert f"\n  {name}" in text
    assert f"number of jobs of a mix (default: {DEFAULT_JOBS})" in " ".join(text.split())
    parser = ArgumentParser()
    simulate.COMMAND.add_arguments(parser)
    for example in simulate.EXAMPLES:
        parser.parse_args(shlex.split(example))


def test_help_on_a_narrow_terminal(simulating: Simulating, monkeypatch: pytest.MonkeyPatch) -> None:
    """Descriptions of policies are wrapped; commands are not, so that users can copy them."""
    monkeypatch.setenv("COLUMNS", "40")
    text = simulating.run("--help").out.partition("policies:")[2]
    assert max(len(entry) for entry in text.splitlines() if "zonewise simulate" not in entry) <= 40


def test_help_in_a_pipe_has_eighty_columns() -> None:
    code = "from zonewise.cli import main; main(['simulate', '--help'])"
    env = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, env=env)
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_help_needs_no_arrays() -> None:
    """`zonewise --help` and completions load every command."""
    code = "import sys; from zonewise.cli import main; main(['simulate', '--help']); sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, timeout=300).returncode == 0


# --- the whole program


_MAIN = """\
import signal, sys
from zonewise.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(main())"""
"""SIGINT as in a terminal: processes that a shell starts in the background, such as these tests, ignore it."""


@contextmanager
def program(
    *arguments: object, stdout: int | IO[str] = subprocess.PIPE, env: dict[str, str] | None = None
) -> Generator[subprocess.Popen[str]]:
    """Run the command as a process, which is killed at the end."""
    command = [sys.executable, "-c", _MAIN, "simulate", *map(str, arguments)]
    with subprocess.Popen(command, stdout=stdout, stderr=subprocess.PIPE, text=True, env=env) as process:
        try:
            yield process
        finally:
            process.kill()


def test_as_a_program(simulating: Simulating) -> None:
    """The installed program behaves like the function, and fits a terminal of 40 columns."""
    with program(simulating.log, "--compare", "easy,greedy,fifo", env={**os.environ, "COLUMNS": "40"}) as process:
        out, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 40


def test_interrupted(simulating: Simulating) -> None:
    """Ctrl-C prints one line, ends with the status that shells expect, and leaves no incomplete file."""
    trace = simulating.directory / "pipe"
    os.mkfifo(trace)
    # the program opens the pipe, and then waits for more input
    with program(trace, "--json", simulating.directory / "out.json") as process, trace.open("w"):
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
    assert (process.returncode, out, err) == (128 + signal.SIGINT, "", "zonewise: interrupted\n")
    assert sorted(os.listdir(simulating.directory)) == ["log.swf", "pipe"]


@pytest.mark.skipif(not KTH.exists(), reason="no logs beside the project")
def test_a_real_log(simulating: Simulating) -> None:
    """Under EASY, every job waits exactly as long as in the published experiment."""
    outcome = simulating.json(KTH, "--policy", "easy", "--json-jobs")["results"][0]["jobs"]
    lines = map(str.split, gzip.decompress(KTH.read_bytes()).decode().splitlines())
    published = {entry[0]: float(entry[2]) for entry in lines if entry[0] != ";"}
    assert {entry["name"]: entry["wait"] for entry in outcome} == published
