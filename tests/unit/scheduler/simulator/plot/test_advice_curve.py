"""The picture of a piece of advice."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from zonewise_scheduler.simulator.advice.curve import AdviceCurve, CurvePoint
from zonewise_scheduler.simulator.plot.plot_file import draw_advice_plot

if TYPE_CHECKING:
    from pathlib import Path

POINTS = [CurvePoint(2, "2", inf, met=False), CurvePoint(4, "4", 7200.0, met=False), CurvePoint(8, "8", 0.0, met=True)]
CURVE = AdviceCurve("A title", "A caption.", "nodes", "p95 wait", 3600.0, POINTS, POINTS[2])


def texts(curve: AdviceCurve, path: Path) -> dict[str, float]:
    """Return all texts in the picture, with the distance of each from the upper edge."""
    draw_advice_plot(curve, path)
    root = ElementTree.parse(path).getroot()  # noqa: S314 -- our own
    nodes = root.iter("{http://www.w3.org/2000/svg}text")
    return {node.text or "": float(node.attrib["y"]) for node in nodes}


def test_it_names_setting_goal_and_the_smallest_value(tmp_path: Path) -> None:
    printed = texts(CURVE, tmp_path / "a.svg")
    for text in ("A title", "A caption.", "nodes", "p95 wait, minutes", "met", "missed", "goal", "the smallest: 8",
                 "never", "2", "4", "8"):  # fmt: skip
        assert text in printed


def test_without_a_result_and_without_finite_waits(tmp_path: Path) -> None:
    printed = texts(CURVE._replace(points=POINTS[:1], smallest=None), tmp_path / "a.svg")
    assert "never" in printed
    assert not [text for text in printed if text.startswith("the smallest")]


def test_labels_do_not_crowd(tmp_path: Path) -> None:
    points = [CurvePoint(value, f"value {value}", float(value), met=True) for value in range(100, 200)]
    printed = texts(CURVE._replace(points=points, smallest=points[0]), tmp_path / "a.svg")
    assert 5 <= sum(text.startswith("value") for text in printed) <= 11


def test_the_legend_is_above_a_curve_that_reaches_the_corner(tmp_path: Path) -> None:
    points = [CurvePoint(value, str(value), 1800.0, met=True) for value in (1, 2, 3)]
    printed = texts(CURVE._replace(points=points, smallest=points[0], bound=1800.0), tmp_path / "a.svg")
    highest_tick = printed["30"]
    assert all(printed[label] < highest_tick for label in ("met", "missed", "goal", "the smallest: 1"))


def test_a_long_title_is_truncated_and_a_long_caption_is_wrapped(tmp_path: Path) -> None:
    caption = "The smallest value that meets the goal: quota of research, nvidia.com/gpu 53. " * 3
    printed = texts(CURVE._replace(title="word " * 40, caption=caption.strip()), tmp_path / "a.svg")
    lines = [text for text in printed if text in caption and len(text) > 20]
    assert " ".join(lines) == caption.strip()
    assert max(map(len, lines)) <= 125
    (title,) = (text for text in printed if text.startswith("word"))
    assert len(title) <= 80
    assert printed[title] < printed[lines[0]] < printed[lines[-1]] < printed["met"]


def test_the_bytes_are_deterministic(tmp_path: Path) -> None:
    for name in ("a.png", "b.png", "a.svg", "b.svg"):
        draw_advice_plot(CURVE, tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
