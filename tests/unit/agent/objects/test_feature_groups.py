"""Groups of features by name."""

from __future__ import annotations

import pytest

from zonewise.objects.feature_groups import FEATURE_GROUPS, parse_feature_groups


@pytest.mark.parametrize(
    ("value", "groups"),
    [
        ("none", ()),
        ("", ()),
        ("all", FEATURE_GROUPS),
        ("network.pods, kernel.config", ("kernel.config", "network.pods")),
    ],
)
def test_groups(value: str, groups: tuple[str, ...]) -> None:
    """The groups are all, none or some, in canonical order."""
    assert parse_feature_groups(value) == groups


@pytest.mark.parametrize("value", ["kernel", "kernel.config,", 7, None])
def test_no_groups(value: object) -> None:
    """An unknown group is named together with the known ones."""
    with pytest.raises(ValueError, match=r"is not a feature group: the groups are all, none, kernel\.config"):
        parse_feature_groups(value)
