"""Rules drawn with hypothesis: valid and invalid ones, with templates that are valid or nearly so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from zonewise.rules.operators import OPERATORS

if TYPE_CHECKING:
    from support.rules import Json

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
NAMES = st.sampled_from(["major", "AVX", "vendor", "v", "example.com/a", ""]) | TEXTS
OPERANDS = st.lists(st.sampled_from(["6", "6.8", "5", "(", "^A", "10de", "", "x"]) | TEXTS, max_size=3)
EXPRESSIONS = st.fixed_dictionaries(
    {"op": st.sampled_from([*OPERATORS, "", "Bogus"])},
    optional={"value": OPERANDS, "type": st.sampled_from(["", "version", "int"])},
)
TERMS = st.fixed_dictionaries(
    {"feature": st.sampled_from(["cpu.cpuid", "Kernel.Version", "pci.device", "rule.matched", "no.such", "x", "."])},
    optional={"matchExpressions": st.dictionaries(NAMES, EXPRESSIONS, max_size=3), "matchName": EXPRESSIONS},
)
PIECES = [
    *("{{", "}}", "{{-", "-}}", "range ", "if ", "else ", "end", "with ", "break", "/*", "*/", "{{end}}"),
    *(".", ".pci.device", ".Name", "$x", ":=", "|", "(", ")", '"%s"', '"a"', " 1 ", "a=b\n", "=", "\n", "kernel"),
    *("len ", "index ", "printf ", "eq ", "add ", "repeat ", "join ", "list ", "append "),
    *("{{range .kernel.version}}", "{{.Name}}={{.Value}}\n"),
]
TEMPLATES = st.lists(st.sampled_from(PIECES) | TEXTS, max_size=12).map("".join)
MATCHERS: st.SearchStrategy[Any] = st.lists(TERMS, max_size=3)
OUTPUTS = st.dictionaries(NAMES, st.sampled_from(["1", "@kernel.version.major", "@a", "@a.b.c"]) | TEXTS, max_size=2)
TAINTS: st.SearchStrategy[Json] = st.fixed_dictionaries({"key": NAMES}, optional={"value": TEXTS, "effect": TEXTS})
RULES: st.SearchStrategy[Json] = st.fixed_dictionaries(
    {"name": TEXTS},
    optional={
        "labels": OUTPUTS,
        "labelsTemplate": TEMPLATES,
        "annotations": OUTPUTS,
        "vars": OUTPUTS,
        "varsTemplate": TEMPLATES,
        "extendedResources": OUTPUTS,
        "taints": st.lists(TAINTS, max_size=2),
        "matchFeatures": MATCHERS,
        "matchAny": st.lists(st.fixed_dictionaries({"matchFeatures": MATCHERS}), max_size=2),
    },
)
