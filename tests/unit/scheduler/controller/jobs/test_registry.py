"""The registry of adapters."""

from __future__ import annotations

import pytest

from zonewise_common.kube.resources import JOBS
from zonewise_scheduler.controller.jobs.batch_job import ADAPTER, BatchJob
from zonewise_scheduler.controller.jobs.kubeflow import ADAPTERS
from zonewise_scheduler.controller.jobs.registry import adapters_by_kind, discover_adapters, group_kind


def test_the_adapter_of_each_module_is_discovered() -> None:
    assert ADAPTER in discover_adapters()
    assert set(ADAPTERS) <= set(discover_adapters())
    assert adapters_by_kind()[group_kind(JOBS)] is ADAPTER


def test_a_kind_has_one_adapter() -> None:
    with pytest.raises(ValueError, match="kind Job of group 'batch' has two adapters"):
        adapters_by_kind([BatchJob()])
