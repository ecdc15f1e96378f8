"""Templates over matched features: limits and messages. tests/grading compares the results with Go's."""

from __future__ import annotations

import contextlib
import re

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
        ("a\n\n{{.none.x}}", "line 3: there is no field .none: the fields are pci"),
        ("{{range .pci.device}}{{.class}}{{end}}", "line 1: there is no field .class: the fields are vendor"),
        ("x", "the line 'x' has no \"=\""),
        ('{{env "HOME"}}', "the function 'env' is not supported"),
        ('{{template "x"}}', "line 1: there is no template 'x'"),
        ('{{define "x"}}a{{end}}{{define "x"}}b{{end}}', "line 1: two templates have the name 'x'"),
        ('{{if true}}\n{{define "x"}}{{end}}{{end}}', "line 2: {{define}} within a block"),
        ("{{template x}}", "{{template}} needs a name in quotes"),
        ('{{define "x"}}{{template "x"}}{{end}}{{template "x"}}', "nested more than 100 deep"),
        ('{{define "x"}}{{if .}}{{template "x" .}}{{end}}{{end}}{{template "x" 1}}', "nested more than 100 deep"),
        ('{{define "x"}}{{range 9999}}{{end}}{{end}}{{range 9}}{{template "x"}}{{end}}', "more than 50000 steps"),
        ("{{.pci.device.vendor}}", "a list has no field .vendor"),
        ("{{if true}}", "a block has no {{end}}"),
        ("{{end}}", "{{end}} belongs to no block"),
        ("{{break}}", "{{break}} outside of {{range}}"),
        ("{{len 1 2}}", "len does not accept 2 arguments"),
        ("{{lower 5}}", "lower needs a string, not a number"),
        ("{{index .pci.device 7}}", "index: 7 is out of range: the sequence has 2 elements"),
        ("{{" + "(" * 60 + "1" + ")" * 60 + "}}", "nested more than 50 deep"),
        ("{{range 60000}}{{end}}", "more than 50000 steps"),
        ("{{range 5000}}" + "x" * 100 + "{{end}}", "more than 262144 characters"),
        ("x" * 65_537, "more than 65536 bytes"),
    ],
    ids=range(22),
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


@pytest.mark.parametrize("function", ["trim", "nospace"])
def test_white_space_follows_unicode(function: str) -> None:
    """An em space counts; an ASCII separator, which Python also counts, does not."""
    assert expand(f'{{{{{function} "\u2003a\u2003"}}}}', DATA) == "a"
    assert expand(f'{{{{{function} "\x1ca\x1c"}}}}', DATA) == "\x1ca\x1c"


FRAGMENTS = """
{{define "a"}} {{define "b"}} {{block "a" .}} {{template "a" .}} {{template "b"}} {{range .pci.device}} {{range 9}}
{{if .}} {{else}} {{end}} {{end}} x
"""


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(re.findall(r"{{.*?}}|x", FRAGMENTS)), max_size=14).map("".join))
def test_templates_that_call_each_other_end(template: str) -> None:
    with contextlib.suppress(RuleError):
        assert isinstance(expand(template, DATA), str)


def test_the_deepest_calls_do_not_exceed_pythons_recursion_limit() -> None:
    """Each level is a range in a template; the last level has the maximum number of parentheses."""
    calls = '{{define "x"}}{{range 1}}{{template "x"}}{{end}}{{end}}{{template "x"}}'
    last = "{{if eq . 48}}{{" + "(" * 40 + "1" + ")" * 40 + '}}{{else}}{{template "x" (add . 1)}}{{end}}'
    with pytest.raises(RuleError, match="nested more than 100 deep"):
        expand(calls, DATA)
    assert expand('{{define "x"}}' + last + '{{end}}{{template "x" 0}}', DATA) == "1"
