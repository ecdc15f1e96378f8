"""README and docs are correct: commands run, targets and files exist, and generated pages match the code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from demo.burst import idle_node
from demo.machine import GPU
from support.snapshots import ABSENT, PROJECT, SNAPSHOTS, snapshots
from support.source_roots import SOURCES
from tools.generate_reference import REFERENCE, pages
from zonewise.cli import main
from zonewise.command_registry import installed_commands
from zonewise.daemon.settings import OPTIONS as AGENT_OPTIONS
from zonewise.machine.collector import Collector, NoData
from zonewise.machine.files import MemoryFiles
from zonewise.machine.model.machine import Machine
from zonewise.machine.reader import Reader
from zonewise_scheduler.controller.settings import OPTIONS as CONTROLLER_OPTIONS

if TYPE_CHECKING:
    from zonewise_common.service.options import Options

README = (PROJECT / "README.md").read_text()
DOCS = PROJECT / "docs"
INTERNAL_NAMES = {"avoided-condition", "sweep-part"}
"""Names that no object of a cluster has."""
PAGES = {str(file.relative_to(PROJECT)): file.read_text() for file in sorted(DOCS.rglob("*.md"))}


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 150


def test_every_command_of_the_tables_runs(tmp_path: Path) -> None:
    """The commands run in the order of the page, exit with status 0, and print no errors.

    A command on both pages runs once, with the files that the commands before it have written.
    """
    tables = [re.findall(r"^\| `zonewise ([^`]+)`", page, re.MULTILINE) for page in (README, PAGES["docs/start.md"])]
    assert min(map(len, tables)) >= 6
    for command in dict.fromkeys(command for table in tables for command in table):
        process = subprocess.run(
            [sys.executable, "-m", "zonewise", *command.split()],
            cwd=tmp_path,
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "NODE_NAME": "node-7"},
            timeout=300,
        )
        assert (process.returncode, process.stderr) == (0, ""), command


@pytest.mark.parametrize("page", ["README.md", "docs/start.md"])
def test_the_table_has_the_order_of_the_overview(page: str) -> None:
    shown = re.findall(r"^\| `zonewise (\w+)", (PROJECT / page).read_text(), re.MULTILINE)
    assert list(dict.fromkeys(shown)) == [name for name in installed_commands() if name in shown]


@pytest.mark.skipif(not snapshots(), reason=ABSENT)
def test_the_picture_of_the_readme(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """For a captured server, `zonewise show` prints the lines that the README shows.

    On a system with pci.ids, names would replace the vendor IDs.
    """
    monkeypatch.setattr("zonewise.machine.pci_names.PCI_IDS", ())
    [(command, archive, shown)] = re.findall(
        r"^\$ zonewise (show --root (\S+) .+)\n((?:.+\n|\n)*?)\.\.\.\n```", README, re.MULTILINE
    )
    monkeypatch.chdir((SNAPSHOTS / "synthetic" / archive).parent)
    assert main(command.split()) == 0
    assert shown
    assert capsys.readouterr().out.startswith(shown)


def test_every_target_exists() -> None:
    """Each `make` target on a page is in the Makefile, and `make help` explains it."""
    targets = set(re.findall(r"^([a-z-]+):.*## ", (PROJECT / "Makefile").read_text(), re.MULTILINE))
    text = README + (PROJECT / "CONTRIBUTING.md").read_text() + "".join(PAGES.values())
    named = set(re.findall(r"(?:`|\$ )make ([a-z-]+)", text))
    assert named >= {"show", "demo", "test", "test-quick", "test-servers", "check", "bench-fit", "reference"}
    assert named <= targets


def test_the_demo_installs_what_its_commands_need() -> None:
    """The README runs `zonewise queue` next to the demo; hints about missing libraries, also for pictures, name it."""
    rule = re.search(r"^\.venv/\.demo:.*\n((?:\t.*\n)+)", (PROJECT / "Makefile").read_text(), re.MULTILINE)
    assert rule
    assert set(re.findall(r"--extra (\w+)", rule[1])) == {"agent", "scheduler", "client", "plot"}


def test_the_architecture_lists_every_package() -> None:
    roots = [SOURCES["common"], SOURCES["agent"], SOURCES["scheduler"]]
    names = [file.parent.name for root in roots for file in root.glob("*/__init__.py")]
    for package in ("controller", "extender", "nodes"):
        names += [f"{package}/{file.parent.name}" for file in (SOURCES["scheduler"] / package).glob("*/__init__.py")]
    assert len(names) > 30
    assert [name for name in names if f"`{name}`" not in PAGES["docs/architecture/index.md"]] == []


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "manifests/README.md"])
def test_every_link_leads_to_a_file(page: str) -> None:
    """The pages are outside docs/, so `make docs` does not check their links."""
    file = PROJECT / page
    links = re.findall(r"\]\((?!https?:)([^)#]+)", file.read_text())
    assert [link for link in links if not (file.parent / link).exists()] == []


def test_every_manifest_that_is_applied_exists() -> None:
    """Each `kubectl apply` on a page names a kustomization or a file of this repository."""
    text = README + "".join(PAGES.values())
    folders = set(re.findall(r"kubectl apply -k (manifests\S*)", text))
    files = set(re.findall(r"kubectl apply -f (manifests\S+)", text))
    assert folders >= {"manifests/", "manifests/scheduler", "manifests/queue"}
    assert files
    assert [folder for folder in folders if not (PROJECT / folder / "kustomization.yaml").is_file()] == []
    assert [file for file in files if not (PROJECT / file).is_file()] == []


@pytest.mark.parametrize("page", pages())
def test_the_reference_matches_the_code(page: str) -> None:
    """Run `make reference` if this test fails."""
    if page == "cli.md" and sys.version_info >= (3, 13):
        pytest.skip("argparse writes options in another form from 3.13 on")
    assert (REFERENCE / page).read_text() == pages()[page]


@pytest.mark.parametrize(
    ("pages", "options"), [(["agent"], AGENT_OPTIONS), (["devices", "job-kinds", "live-queue"], CONTROLLER_OPTIONS)]
)
def test_a_guide_has_an_example_of_each_structured_setting(pages: list[str], options: Options) -> None:
    """The example is valid, and the reference lists the setting."""
    text = "".join(PAGES[f"docs/guides/{page}.md"] for page in pages)
    examples = [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```", text, re.DOTALL | re.M)]
    for option in options.file_options:
        [value] = [example[option.key] for example in examples if option.key in example]
        assert option.parse(value)
        assert f"| `{option.key}` |" in PAGES["docs/reference/settings.md"]


def test_the_reference_has_each_command() -> None:
    """The reference has the commands of the overview, without deprecated names."""
    assert re.findall(r"^### zonewise (\w+)$", (REFERENCE / "cli.md").read_text(), re.MULTILINE) == [
        *installed_commands()
    ]


def test_each_name_under_our_domain_is_in_the_reference() -> None:
    """A name in the code is an attribute, or stands on the page of names, possibly without its domain."""
    pattern = re.compile(r"\"zonewise\.dev/([\w-]+)[\"./]")
    names = {
        name for root in SOURCES.values() for file in root.rglob("*.py") for name in pattern.findall(file.read_text())
    }
    text = PAGES["docs/reference/names.md"] + PAGES["docs/reference/attributes.md"]
    assert {name for name in names if not re.search(rf"`(?:zonewise\.dev/)?{name}\b", text)} == INTERNAL_NAMES


def test_the_verdicts_of_the_guide(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`zonewise fit` prints the output in the guide, for two pods on the node of the demo."""
    monkeypatch.chdir(tmp_path)
    Path("node-7.yaml").write_text(yaml.safe_dump(idle_node("node-7")))
    requests = {"train": {"cpu": "16", "memory": "24Gi", GPU: "2"}, "wide": {"cpu": "36", "memory": "1Gi"}}
    for name, limits in requests.items():
        container = {"name": "main", "resources": {"limits": limits}}
        Path(f"{name}.yaml").write_text(yaml.safe_dump({"kind": "Pod", "spec": {"containers": [container]}}))
    shown = re.findall(r"\$ zonewise (fit .+)\n((?:node-7 .+\n)(?:  .+\n)*)", PAGES["docs/guides/extender.md"])
    assert len(shown) == 2
    for command, output in shown:
        main(command.split())
        assert capsys.readouterr().out == output


def test_the_collector_of_the_guide_runs() -> None:
    code = PAGES["docs/guides/add-a-collector.md"].split("```python\n")[1].split("```")[0]
    names: dict[str, object] = {"Collector": Collector, "NoData": NoData, "Reader": Reader, "Machine": Machine}
    exec(code, names)  # noqa: S102 -- the page's own code
    example = names["COLLECTOR"]
    assert isinstance(example, Collector)
    assert set(example.provides) == {example.name}
    with pytest.raises(NoData, match="no RAPL"):
        example.collect(Reader(MemoryFiles([])), Machine())


def _is_module(name: str) -> bool:
    """Return whether a path such as `quota/hierarchy/snapshot.py` or `nodes/` exists below a source root."""
    return (
        any((root / name).exists() or root.parent.joinpath(name).exists() for root in SOURCES.values())
        or (PROJECT / name).exists()
    )


@pytest.mark.parametrize(
    "page", ["CONTRIBUTING.md", *(name for name in PAGES if name.startswith(("docs/parity/", "docs/architecture/")))]
)
def test_every_module_of_a_page_exists(page: str) -> None:
    """Pages name modules in backticks, by their path below a source root."""
    modules = re.findall(r"`((?:[a-z0-9_]+/)+(?:[a-z0-9_]+\.py)?)`", (PROJECT / page).read_text())
    assert [name for name in modules if not _is_module(name)] == []


@pytest.mark.parametrize("walk", range(2))
def test_a_walk_is_short(walk: int) -> None:
    """From a CPU list to a verdict, and from a Job to its start: each walk visits fewer than 25 modules."""
    text = PAGES["docs/architecture/walks.md"].split("\n## ")[1 + walk]
    steps = re.findall(r"^\d+\. `((?:[a-z0-9_]+/)+[a-z0-9_]+\.py)`", text, re.MULTILINE)
    assert 5 <= len(steps) < 25
    assert len(set(steps)) == len(steps)
