"""The headings of pages: the theme's table of contents lists only what is below the first heading of level 1."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from support.snapshots import PROJECT

PAGES = sorted(str(page.relative_to(PROJECT)) for page in (PROJECT / "docs").rglob("*.md"))
_FENCE = re.compile(r"^ *(```|~~~).*?^ *\1 *$", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_one_title_and_skips_no_level(page: str) -> None:
    """The only heading of level 1 is the first one, and a heading is at most one level below the previous one."""
    text = _FENCE.sub("", (PROJECT / page).read_text())
    levels = [len(marks) for marks in re.findall(r"^(#+) ", text, re.MULTILINE)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(below <= above + 1 for above, below in pairwise(levels))
