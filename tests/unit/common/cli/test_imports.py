"""Imports without garbage collections: only the imports, and only if collections are enabled."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

from zonewise_common.cli.imports import without_collections

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    yield
    gc.enable()


def fail_to_import() -> None:
    with without_collections():
        assert not gc.isenabled()
        raise ImportError


def test_collections_are_enabled_after_the_imports() -> None:
    """Also after imports that fail."""
    with without_collections():
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ImportError):
        fail_to_import()
    assert gc.isenabled()


def test_later_collections_skip_what_is_imported() -> None:
    with without_collections():
        imported = [object()]
    assert gc.get_freeze_count() > 0
    assert all(imported is not tracked for tracked in gc.get_objects())


def test_disabled_collections_remain_disabled() -> None:
    """`zonewise up` enables them once its controller runs."""
    gc.unfreeze()
    gc.disable()
    with without_collections():
        assert not gc.isenabled()
    assert not gc.isenabled()
    assert gc.get_freeze_count() == 0
