"""Patches that take effect although their responses are lost."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from zonewise_common.kube.errors import TransportError

if TYPE_CHECKING:
    from collections.abc import Generator


@contextmanager
def lost_answers(client: Any) -> Generator[None]:
    """Lose the responses of a client's patches; fail unless the block raises TransportError."""
    patch = client.patch

    def lose(*arguments: Any, **options: Any) -> None:
        patch(*arguments, **options)
        raise TransportError("the answer is lost")

    with pytest.MonkeyPatch.context() as context:
        context.setattr(client, "patch", lose)
        with pytest.raises(TransportError):
            yield
