"""The picture of every captured machine: it is drawn, fits, and has every CPU."""

from __future__ import annotations

import pytest

from support.pictures import cores_in
from support.snapshots import ABSENT, scan_of, snapshots
from unit.agent.render.test_svg import check_geometry
from zonewise.render.canvas import column_width
from zonewise.render.layout import all_cpus, layout
from zonewise.render.matrix import render_matrix
from zonewise.render.problems import render_problems
from zonewise.render.terminal import render_terminal

NAMES = sorted(snapshots())
pytestmark = pytest.mark.skipif(not NAMES, reason=ABSENT)


@pytest.mark.parametrize("width", [40, 80, 120, 200])
@pytest.mark.parametrize("name", NAMES)
def test_every_picture_fits(name: str, width: int) -> None:
    """Picture, matrix and problems of every machine fit into the terminal, in Unicode and in ASCII."""
    machine = scan_of(name).machine
    pictures = (
        render_terminal(machine, width, colour=False),
        render_terminal(machine, width, colour=False, unicode=False),
        render_matrix(machine, width),
        render_problems(machine, width),
    )
    for picture in pictures:
        assert all(column_width(line) <= width for line in picture.split("\n"))


@pytest.mark.parametrize("name", NAMES)
def test_every_cpu_is_shown(name: str) -> None:
    """Every CPU of every machine occurs once in its picture."""
    machine = scan_of(name).machine
    shown = [cpu for leaf in cores_in(layout(machine).boxes) for held in leaf.cores for cpu in held]
    assert sorted(shown) == list(all_cpus(machine))


@pytest.mark.parametrize("name", NAMES)
def test_every_vector_picture_is_valid(name: str) -> None:
    """Nothing overlaps or is outside its box."""
    check_geometry(scan_of(name).machine)


def test_an_hgx_fits_on_a_screen() -> None:
    """With eight GPUs, ten ports and eight drives, picture and matrix have at most 60 lines of 120 columns."""
    machine = scan_of("synthetic/hgx_h100").machine
    parts = render_terminal(machine, 120, colour=False), render_matrix(machine, 120, everything=False)
    assert len("\n\n".join(parts).split("\n")) <= 60
