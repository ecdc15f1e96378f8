"""Pictures in files."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.histories import MACHINE, PREEMPTED, histories, history, job, run
from zonewise_scheduler.simulator.plot.figure import DPI, WIDTH
from zonewise_scheduler.simulator.plot.plot_file import check_plot_path, draw_plot

if TYPE_CHECKING:
    from zonewise_scheduler.simulator.history import History

MANY = history(
    *(
        job(f"job-{number}", number, 1 + number % 7, run(number + number % 90, number + 300), pods=number % 3 + 1)
        for number in range(3000)
    ),
    capacity={"cpu": 3000},
)


def parsed(picture: str) -> ElementTree.Element:
    return ElementTree.fromstring(picture)  # noqa: S314 -- our own


def svg(entry: History, folder: Path, **more: object) -> str:
    """Return the text of the picture's file, which is well-formed XML."""
    path = folder / "picture.svg"
    draw_plot(entry, path, title="A title", **more)  # pyright: ignore[reportArgumentType]
    text = path.read_text(encoding="utf-8")
    assert parsed(text).tag == "{http://www.w3.org/2000/svg}svg"
    return text


def texts(picture: str) -> list[str]:
    """Return all texts in the picture, from top to bottom."""
    return [node.text or "" for node in parsed(picture).iter("{http://www.w3.org/2000/svg}text")]


# --- files


def test_an_svg_is_well_formed_and_labelled(tmp_path: Path) -> None:
    printed = texts(svg(PREEMPTED, tmp_path, caption="7 jobs · 1 failed"))
    for text in (
        "A title", "7 jobs · 1 failed", "Utilisation of cpu", "allocated", "effective", "Queue length", "Gantt chart",
        "preempted", "reservation", "share of cpu", "time since the first submission, minutes", "Waits by width",
        "2 never started", "a", "b", "c", "at once", "100 %",
    ):  # fmt: skip
        assert text in printed


def test_a_png_has_the_declared_size(tmp_path: Path) -> None:
    path = tmp_path / "picture.PNG"
    draw_plot(PREEMPTED, path, title="A title")
    content = path.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    wide, high = struct.unpack(">II", content[16:24])
    assert wide == WIDTH * DPI
    assert high > wide


@pytest.mark.parametrize("form", ["svg", "png"])
def test_the_same_history_gives_the_same_bytes(tmp_path: Path, form: str) -> None:
    contents: list[bytes] = []
    for name in ("one", "other"):
        draw_plot(PREEMPTED, tmp_path / f"{name}.{form}", title="t", compare=[("a", PREEMPTED), ("b", PREEMPTED)])
        contents.append((tmp_path / f"{name}.{form}").read_bytes())
    assert contents[0] == contents[1]


@pytest.mark.parametrize("name", ["picture.pdf", "picture", "svg"])
def test_another_suffix_is_an_error_that_names_the_supported_ones(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=re.escape(name) + r".*\.svg or \.png"):
        draw_plot(PREEMPTED, tmp_path / name, title="t")


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    for form in ("svg", "png"):
        with pytest.raises(FileNotFoundError):
            draw_plot(PREEMPTED, tmp_path / "absent" / f"picture.{form}", title="t")


def test_without_matplotlib_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_: str) -> None:
        return None

    monkeypatch.setattr("zonewise_scheduler.simulator.plot.plot_file.find_spec", nothing)
    with pytest.raises(ModuleNotFoundError, match="No module named 'matplotlib'"):
        check_plot_path(Path("picture.svg"))


def test_matplotlib_is_imported_when_something_is_drawn() -> None:
    """Series can be computed and paths checked without it."""
    names = (
        "history_arrays", "step_functions", "resource_shares", "wait_quantiles", "gantt_lanes", "gantt_excerpt",
        "time_units", "plot_file",
    )  # fmt: skip
    imports = "".join(f"import zonewise_scheduler.simulator.plot.{name}\n" for name in names)
    script = f"import sys\n{imports}sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=300).returncode == 0


def test_no_names_or_titles_break_a_picture(tmp_path: Path) -> None:
    """The names contain XML markup, formulas, control characters, letters that the font lacks, undecodable bytes."""
    odd = "<a & b> $x_1$ $ 日本 \x00\x1b[1m \udc80 \ufffe"
    entry = history(job(odd, 0, 4, run(0, 100), queue=odd), capacity={odd: 3, "cpu": 8})
    for form in ("svg", "png"):
        draw_plot(entry, tmp_path / f"picture.{form}", title=odd, caption=odd, compare=[(odd, entry), ("b", entry)])
    printed = texts((tmp_path / "picture.svg").read_text(encoding="utf-8"))
    assert any("<a & b> $x_1$ $ 日本 �" in text for text in printed)


def test_a_long_title_is_truncated_and_a_long_caption_is_wrapped(tmp_path: Path) -> None:
    caption = "mean 3.5 h, " * 20 + "mean"
    lines = [text for text in texts(svg(PREEMPTED, tmp_path, caption=caption)) if "mean" in text]
    assert len(lines) == 2
    assert " ".join(lines) == caption
    draw_plot(PREEMPTED, tmp_path / "long.svg", title="word " * 40)
    (cut,) = (text for text in texts((tmp_path / "long.svg").read_text(encoding="utf-8")) if "word" in text)
    assert cut.endswith("word…")
    assert len(cut) <= 80


# --- cases


def test_a_history_without_jobs_can_be_drawn(tmp_path: Path) -> None:
    for entry in (history(), history(capacity={}), history(job("a", 3, 1), job("b", 4, 9, outcome="refused"))):
        assert texts(svg(entry, tmp_path)).count("no job has started") == 1


def test_jobs_without_length_can_be_drawn(tmp_path: Path) -> None:
    printed = texts(svg(history(job("a", 3, 1, run(3, 3))), tmp_path))
    assert "nothing has run" in printed
    assert "no job has started" not in printed


def test_of_many_jobs_a_part_is_drawn_and_the_picture_states_so(tmp_path: Path) -> None:
    picture = svg(MANY, tmp_path)
    printed = texts(picture)
    assert any(re.fullmatch(r"[\d.]+ minutes about the longest queue: \d+ of 3,000 runs", text) for text in printed)
    assert any(text.startswith("means of ") for text in printed)
    assert len(picture) < 700_000


def test_a_short_part_of_a_long_time_has_its_own_unit(tmp_path: Path) -> None:
    """In days, its ticks would differ in the fourth decimal, and matplotlib would write 46 days as an offset."""
    jobs = [job(str(number), 4e6, 1, run(4e6 + number, 4e6 + number + 90)) for number in range(3000)]
    printed = texts(svg(history(*jobs, job("first", 0, 1, run(0, 10)), capacity={"cpu": 900}), tmp_path))
    assert {"time since the first submission, days", "time since the first submission, minutes"} <= set(printed)
    assert "66,668" in printed
    assert not [text for text in printed if text.startswith("+")]


def test_of_too_many_runs_at_once_the_picture_states_how_many_are_drawn(tmp_path: Path) -> None:
    jobs = [job(str(number), 0, 1, run(0, 100)) for number in range(1600)]
    assert "the 1,500 widest of 1,600 runs" in texts(svg(history(*jobs, capacity={"cpu": 1600}), tmp_path))


def test_jobs_that_never_start_do_not_widen_the_axis_of_widths(tmp_path: Path) -> None:
    jobs = [job("a", 0, 4, run(0, 9)), job("b", 0, 8, run(9, 20)), job("c", 0, 10**10, outcome="refused")]
    printed = texts(svg(history(*jobs, capacity={"cpu": 8}), tmp_path))
    assert "1 never started" in printed
    assert {"50 %", "100 %"} <= set(printed)
    assert not [text for text in printed if text.endswith("000 %")]


def test_a_colour_means_the_same_wait_in_all_charts(tmp_path: Path) -> None:
    short, long = (history(job("a", 0, 8, run(wait, 9e5)), job("b", 0, 1, run(0, 9e5))) for wait in (5000, 400_000))
    printed = texts(svg(short, tmp_path, compare=[("easy", short), ("fifo", long)]))
    legend = [text for text in printed if text.startswith(("waited ", "<", "≥"))]
    assert legend == ["waited < 10 h", "waited < 10 h", "≥ 3 d"]


def test_the_charts_of_all_policies_have_the_same_time_axis(tmp_path: Path) -> None:
    other = history(job("x", 100, 8, run(150, 400)))
    printed = texts(svg(PREEMPTED, tmp_path, compare=[("easy", PREEMPTED), ("fifo", other)]))
    assert {"easy", "fifo", "c", "x", "Gantt chart of easy", "Gantt chart of fifo"} <= set(printed)
    assert "2 / 0 never started" in printed


def test_the_legend_of_many_policies_is_inside_of_the_picture(tmp_path: Path) -> None:
    names = [f"policy-{number}" for number in range(12)]
    picture = parsed(svg(PREEMPTED, tmp_path, compare=[(name, PREEMPTED) for name in names]))
    nodes = picture.iter("{http://www.w3.org/2000/svg}text")
    right = {node.text: float(node.attrib["x"]) for node in nodes if node.text in names}
    assert [*right] == names
    assert max(right.values()) < 72 * WIDTH - 40


def test_resources_of_equal_shares_have_one_panel(tmp_path: Path) -> None:
    amounts = {"cpu": 4, "gpu": 2, "pods": 1}
    entry = history(job("a", 0, 0, run(0, 9), amounts=amounts), capacity={**MACHINE, "pods": 100})
    assert [text for text in texts(svg(entry, tmp_path)) if "Utilisation" in text] == [
        "Utilisation of cpu and gpu",
        "Utilisation of pods",
    ]


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(histories(max_jobs=8), st.none() | histories(max_jobs=8))
def test_any_history_can_be_drawn(tmp_path: Path, entry: History, other: History | None) -> None:
    svg(entry, tmp_path, compare=[] if other is None else [("a", entry), ("b", other)])
