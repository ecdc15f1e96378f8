"""One contract for all NVML backends: the stand-in, the real package over a C library, and the library of a real GPU.

fixtures/nvml_h100.json and nvml_h200.json contain the responses of the library of driver 580.159.04 for an H100 and an
H200, captured by zonewise.

The tests compile the C library from fixtures/nvml_stub.c. Only the layout of a real compiler can show whether the
package reads the structs correctly. The library responds exactly like `stub_twin`, so that the tests also verify the
stand-in.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.nvml_results import captures, from_capture, stub_twin
from zonewise.machine.nvml.child_process import NvmlChild
from zonewise.machine.nvml.facts import NvmlFacts, NvmlGpu
from zonewise.machine.nvml.facts_json import from_json, to_json
from zonewise.machine.nvml.queries import MAX_LINKS, collect_nvml
from zonewise.machine.sysfs import is_pci_address

if TYPE_CHECKING:
    from collections.abc import Callable

FIXTURES = Path(__file__).parents[1] / "fixtures"
RECORDED = ("h100", "h200")
SOURCE = FIXTURES / "nvml_stub.c"
COMPILER = shutil.which("cc")
HAS_DRIVER = Path("/proc/driver/nvidia/version").exists()
NEEDS_COMPILER = pytest.mark.skipif(COMPILER is None, reason="no C compiler (cc) to compile the stub with")


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of the compiled stub."""
    assert COMPILER is not None
    directory = tmp_path_factory.mktemp("nvml")
    output = directory / "libnvidia-ml.so.1"
    subprocess.run([COMPILER, "-Wall", "-Werror", "-shared", "-fPIC", "-o", output, SOURCE], check=True, timeout=300)
    return directory


def query_stub(library: Path, wrong: str = "", deadline: float = 20) -> NvmlFacts:
    """Return the facts that the real package reads from the stub, in a child process."""
    return NvmlChild(deadline=deadline, environment={"LD_LIBRARY_PATH": str(library), "NVML_STUB": wrong}).query()


BACKENDS: list[tuple[str, Callable[[pytest.FixtureRequest], NvmlFacts]]] = [
    ("fake", lambda _: collect_nvml(stub_twin())),
    *((name, lambda _, capture=capture: collect_nvml(from_capture(capture))) for name, capture in captures().items()),
    ("stub", lambda request: query_stub(request.getfixturevalue("library"))),
    *((name, lambda _, name=name: from_json((FIXTURES / f"nvml_{name}.json").read_text())) for name in RECORDED),
    ("real", lambda _: NvmlChild().query()),
]
MARKS = {
    "stub": NEEDS_COMPILER,
    "real": pytest.mark.skipif(not HAS_DRIVER, reason="no NVIDIA driver on this machine"),
}


@pytest.fixture(
    scope="module", params=[pytest.param(ask, id=name, marks=MARKS.get(name, ())) for name, ask in BACKENDS]
)
def facts(request: pytest.FixtureRequest) -> NvmlFacts:
    """Return the facts of each backend, queried once."""
    return request.param(request)


def test_the_system_is_described(facts: NvmlFacts) -> None:
    """A working backend has no problem, and reports the version of its driver."""
    assert facts.problem is None
    assert re.fullmatch(r"\d+\.\d+(\.\d+)?", facts.driver_version or "")
    assert (facts.cuda_version or 0) >= 11000
    assert facts.faults == ()
    assert facts.gpus


def test_each_gpu_has_a_unique_identity(facts: NvmlFacts) -> None:
    """Address and UUID are present, in the forms of sysfs and other tools, and unique."""
    assert all(is_pci_address(gpu.address or "") for gpu in facts.gpus)
    assert all((gpu.uuid or "").startswith("GPU-") for gpu in facts.gpus)
    assert all(gpu.name for gpu in facts.gpus)
    for identity in ("address", "uuid", "place", "minor"):
        assert len({getattr(gpu, identity) for gpu in facts.gpus}) == len(facts.gpus)


def test_every_unknown_fact_has_a_reason(facts: NvmlFacts) -> None:
    """Every unknown fact has a reason, and no known fact has one."""
    for gpu in facts.gpus:
        unknown = {name for name, value in gpu._asdict().items() if value is None}
        assert unknown == {reason for reason in gpu.absent if reason in NvmlGpu._fields and reason != "links"}
        assert bool(gpu.links) != ("links" in gpu.absent)


def test_healthy_gpus_have_no_faults(facts: NvmlFacts) -> None:
    """A missing feature of a GPU is no fault."""
    assert [gpu.faults for gpu in facts.gpus if gpu.faults or gpu.lost] == []


def test_numbers_are_plausible(facts: NvmlFacts) -> None:
    """A struct that is read at a wrong offset would give implausible numbers."""
    for gpu in facts.gpus:
        assert gpu.memory is None or 1 << 30 < gpu.memory < 1 << 42
        assert gpu.architecture is None or 2 <= gpu.architecture <= 20
        assert gpu.compute_capability is None or 3 <= gpu.compute_capability[0] <= 20
        assert gpu.minor is None or 0 <= gpu.minor < 256
        assert all(0 <= node < 1024 for node in gpu.memory_affinity or ())
        assert gpu.remapped_rows is None or (len(gpu.remapped_rows) == 4 and set(gpu.remapped_rows[2:]) <= {0, 1})
        assert gpu.mig_mode is None or set(gpu.mig_mode) <= {0, 1}
        assert gpu.fabric is None or gpu.fabric.state in range(4)
        assert [link.link for link in gpu.links] == sorted({link.link for link in gpu.links})
        assert len(gpu.links) <= MAX_LINKS


def test_facts_survive_serialization(facts: NvmlFacts) -> None:
    """The parent reads back the child's output unchanged, from one line."""
    text = to_json(facts)
    assert "\n" not in text
    assert from_json(text) == facts


# --- only the C library: properties that the stand-in cannot show


@NEEDS_COMPILER
def test_the_package_reads_structs_as_c_lays_them_out(library: Path) -> None:
    """Every response of the C library equals that of the stand-in: offsets, widths, signs, bytes and text."""
    assert query_stub(library) == collect_nvml(stub_twin())


@NEEDS_COMPILER
def test_older_structs_are_used_if_newer_ones_are_rejected(library: Path) -> None:
    """Even a driver that knows only the first fabric struct reports state and clique."""
    fabric = query_stub(library, "old").gpus[0].fabric
    assert fabric is not None
    assert (fabric.state, fabric.clique, fabric.health_mask, fabric.health_summary) == (3, 32766, None, None)


@NEEDS_COMPILER
def test_a_lost_gpu_does_not_affect_the_other(library: Path) -> None:
    """A lost GPU is marked as lost and not queried further, and the other one is described completely."""
    healthy, lost = query_stub(library, "lost").gpus
    assert healthy == collect_nvml(stub_twin()).gpus[0]
    assert lost.lost
    assert lost.faults == ("nvmlDeviceGetPciInfo: GPU is lost",)
    assert lost.absent["uuid"] == "not queried, because the GPU is lost"


@NEEDS_COMPILER
def test_a_gpu_lost_before_it_has_a_handle_keeps_its_place(library: Path) -> None:
    """The count still includes a GPU that cannot be queried."""
    gpus = query_stub(library, "gone").gpus
    assert [gpu.lost for gpu in gpus] == [False, True]
    assert gpus[1].faults == ("nvmlDeviceGetHandleByIndex: GPU is lost",)


@NEEDS_COMPILER
@pytest.mark.parametrize(
    ("wrong", "cause", "remedy"),
    [
        ("mismatch", "library and kernel module differ in version", "reload the module or reboot"),
        ("driverless", "driver not loaded", "load the kernel module nvidia"),
    ],
)
def test_a_library_that_cannot_start_is_one_problem_with_a_remedy(
    library: Path, wrong: str, cause: str, remedy: str
) -> None:
    """One line states why nothing is known, and how to fix it."""
    facts = query_stub(library, wrong)
    assert cause in (facts.problem or "")
    assert remedy in (facts.problem or "")
    assert facts.gpus == ()


@NEEDS_COMPILER
def test_a_library_that_hangs_is_abandoned_after_the_deadline(library: Path) -> None:
    """A call that never returns delays the result only until the deadline."""
    assert query_stub(library, "hang", deadline=1.5).problem == "the nvidia driver did not respond within 1.5 s"


@NEEDS_COMPILER
def test_a_library_that_crashes_ends_only_the_child(library: Path) -> None:
    """If the child crashes, the problem names its signal and contains its last output."""
    problem = query_stub(library, "crash").problem or ""
    assert problem == "the query of NVML failed: the process ended by signal 6: stub: crash"


@NEEDS_COMPILER
def test_output_of_a_library_is_ignored(library: Path) -> None:
    """Other output on stdout and stderr does not hide the response."""
    assert query_stub(library, "noisy") == collect_nvml(stub_twin())


def test_no_library_at_all_is_one_problem(tmp_path: Path) -> None:
    """If libnvidia-ml.so.1 is absent or no library, the problem states how to get one."""
    if HAS_DRIVER:
        pytest.skip("the library is installed here")
    (tmp_path / "libnvidia-ml.so.1").write_text("not a library")
    problem = query_stub(tmp_path).problem or ""
    assert problem.startswith("NVML cannot be used: library not found; mount the driver's libraries")


def test_the_child_imports_little() -> None:
    """Agents start the child on every node, so of our packages it loads only its own modules."""
    code = (
        "import sys, zonewise.machine.nvml.__main__\n"
        "print(*sorted(name for name in sys.modules if name.startswith('zonewise')), 'pynvml' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=300)
    own, pynvml = answer.stdout.split()[:-1], answer.stdout.split()[-1]
    assert pynvml == "False"
    assert {name for name in own if not name.startswith("zonewise.machine.nvml")} == {
        "zonewise",
        "zonewise.machine",
        "zonewise.machine.sysfs",
    }


def test_the_child_inherits_the_module_path(tmp_path: Path) -> None:
    """The child finds our packages even if they are not installed, and imports nothing from the working directory."""
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')")
    script = (
        "import os; os.chdir(%r); from zonewise.machine.nvml.child_process import CHILD; print(CHILD.query().problem)"
    )
    roots = os.pathsep.join(sys.path)
    answer = subprocess.run(
        [sys.executable, "-P", "-S", "-c", script % str(tmp_path)],
        check=True, capture_output=True, text=True, timeout=300, env={"PYTHONPATH": roots},
    )  # fmt: skip
    assert "failed" not in answer.stdout
    assert "wrong json" not in answer.stdout


EVENTS = [sys.executable, "-P", "-m", "zonewise.machine.nvml", "events"]


@pytest.mark.skipif(not HAS_DRIVER, reason="no NVIDIA driver on this machine")
def test_the_real_library_has_events() -> None:
    """Every GPU can be registered, a wait without events is no error, and the process stops at the end of its input."""
    ended = subprocess.run(EVENTS, input="", capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


@NEEDS_COMPILER
def test_a_library_without_events_is_an_error_in_one_line(library: Path) -> None:
    environment = {**os.environ, "LD_LIBRARY_PATH": str(library)}
    ended = subprocess.run(EVENTS, input="", capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("NVML has no events: ")
