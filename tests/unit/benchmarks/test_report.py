"""The groups of benchmarks: their modules and sections exist, so a long run cannot fail at its end."""

from __future__ import annotations

import re
from importlib.util import find_spec

import pytest

from benchmarks.report import GROUPS, PAGE


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_has_its_modules_and_its_section_of_the_page(group: str) -> None:
    assert all(find_spec(f"benchmarks.{name}") for name in GROUPS[group])
    assert len(re.findall(rf"<!-- {group} -->\n.*?<!-- end -->", PAGE.read_text(), re.DOTALL)) == 1
