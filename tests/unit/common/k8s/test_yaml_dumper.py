"""YAML strings that Go and PyYAML read alike. Go's results were measured with kubectl 1.32."""

from __future__ import annotations

import pytest
import yaml

from zonewise_common.k8s.yaml_dumper import kubectl_dumper

DUMPERS = [yaml.SafeDumper, getattr(yaml, "CSafeDumper", yaml.SafeDumper)]


def dumped(document: object, base: object = yaml.SafeDumper) -> str:
    return yaml.dump(document, Dumper=kubectl_dumper(base), width=1000)  # type: ignore[arg-type]


@pytest.mark.parametrize("base", DUMPERS)
@pytest.mark.parametrize(
    "text",
    [
        "1e-4", "1E+3", "08", "0123456e8", "0o14", "-0O7", "0b1_0", "0X1f", "1_0", "-1_.5", "+_1", ".5e3", "1.", "012",
        "y", "Y", "n", "N", "yes", "off", "null", "~", ".inf", "2026-01-01", "1:30", "", "<<", "-",
    ],
)  # fmt: skip
def test_a_text_that_go_would_resolve_is_quoted(text: str, base: object) -> None:
    assert dumped({"value": text}, base) == f"value: '{text}'\n"


@pytest.mark.parametrize("text", ["4Gi", "1.2.3", "10.0.0.1", "0x", "08:00:2b", "1e", "e5", "0c4f-11", "yy", "v1"])
def test_any_other_text_is_not_quoted(text: str) -> None:
    assert dumped({"value": text}) == f"value: {text}\n"


def test_keys_are_texts_too() -> None:
    assert dumped({"y": 1, "1e3": 2}) == "'1e3': 2\n'y': 1\n"


def test_numbers_and_booleans_are_not_quoted() -> None:
    assert yaml.safe_load(dumped([1, -2.5, 1e-05, True, None])) == [1, -2.5, 1e-05, True, None]
    assert "'" not in dumped([1, -2.5, 1e-05, True, None])
