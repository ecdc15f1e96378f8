"""Whether a replica leads, and whether it holds the lease while it stops."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, cast
from unittest.mock import MagicMock

import pytest

from support.waiting import eventually
from zonewise_sandbox.apiserver import ApiServer
from zonewise_scheduler.controller.election import Election
from zonewise_scheduler.controller.settings import ControllerSettings

if TYPE_CHECKING:
    from zonewise_scheduler.controller.planning.checkpoint_store import CheckpointStore


@pytest.mark.parametrize("elects", [True, False])
def test_the_lease_is_held_until_the_last_checkpoint_is_written(*, elects: bool) -> None:
    """The checkpoint is written when its context is left."""
    held: list[bool] = []
    checkpoints = MagicMock()
    with ApiServer() as server:
        election = Election(ControllerSettings(api_server=server.url, namespace="default", leader_election=elects))
        checkpoints.__exit__.side_effect = lambda *_arguments: held.append(election.holds_lease())  # pyright: ignore[reportUnknownLambdaType]
        assert election.holds_lease() is not elects
        with ExitStack() as stack:
            election.compete(cast("CheckpointStore", checkpoints), lambda: None, stack)
            eventually(election.leads)
            assert election.holds_lease()
            election.stand_by()
            assert not election.leads()
            assert not election.is_standby()
    assert held == [True]
    assert election.holds_lease() is not elects
