"""Templates over matched features. tests/grading compares them with Go's; these are limits and messages."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zonewise.rules.template.execution import expand, expand_map
from zonewise.rules.types import RuleError

DATA = {"pci": {"device": [{"vendor": "10de", "class": "0302"}, {"vendor": "8086"}]}}


def test_lines_become_entries() -> None:
    assert expand_map("a=1\n\n  b = x=y \nc=\n", DATA) == {"a": "1", "b ": " x=y", "c": ""}


def test_counts_and_instances() -> None:
    template = "n={{len .pci.device}}\n{{range $i, $d := .pci.device}}d{{$i}}={{$d.vendor | upper}}\n{{end}}"
    assert expand_map(template, DATA) == {"n": "2", "d0": "10DE", "d1": "8086"}


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("a\n\n{{.none.x}}", "line 3: there is no .none: there is pci"),
        ("{{range .pci.device}}{{.class}}{{end}}", "line 1: there is no .class: there is vendor"),
        ("x", "its line 'x' has no \"=\""),
        ('{{env "HOME"}}', "the function 'env' is not supported"),
        ('{{template "x"}}', "{{template}} is not supported"),
        ("{{.pci.device.vendor}}", "a list has no field .vendor"),
        ("{{if true}}", "a block without its {{end}}"),
        ("{{end}}", "{{end}} without a block"),
        ("{{break}}", "{{break}} outside of {{range}}"),
        ("{{len 1 2}}", "len does not accept 2 arguments"),
        ("{{lower 5}}", "lower needs a text, and not a number"),
        ("{{index .pci.device 7}}", "index: 7 is out of range, there are 2"),
        ("{{" + "(" * 60 + "1" + ")" * 60 + "}}", "more than 50 blocks and parentheses"),
        ("{{range 60000}}{{end}}", "more than 50000 steps"),
        ("{{range 5000}}" + "x" * 100 + "{{end}}", "more than 262144 characters"),
        ("x" * 65_537, "more than 65536 bytes"),
    ],
    ids=range(16),
)
def test_errors_name_line_and_construct(template: str, words: str) -> None:
    with pytest.raises(RuleError) as error:
        expand_map(template, DATA)
    assert words in str(error.value)
    assert str(error.value).startswith(("template", "a template"))


@settings(max_examples=100, deadline=None)
@given(
    st.text(st.sampled_from("{}-.$|()=:, \n\"`'\\/*aeinrdlsfgtuwh01"), max_size=40).map(
        lambda inner: f"{{{{{inner}}}}}"
    )
)
def test_any_text_is_a_template_or_an_error(template: str) -> None:
    with contextlib.suppress(RuleError):
        assert isinstance(expand(template, DATA), str)
