"""Ctrl-C during imports ends the process at once, but only if Ctrl-C would have interrupted the program."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from zonewise_common.cli.interrupts import killed_by_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(autouse=True)
def same_handler_afterwards() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


def fail_to_import() -> None:
    with killed_by_interrupt():
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
        raise ImportError


def test_the_kernel_ends_the_process() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.raises(ImportError):
        fail_to_import()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def do_nothing(_number: int, _frame: object) -> None: ...


@pytest.mark.parametrize("handler", [signal.SIG_IGN, do_nothing], ids=["ignored", "another"])
def test_other_handlers_remain(handler: signal.Handlers | Callable[[int, object], None]) -> None:
    signal.signal(signal.SIGINT, handler)
    with killed_by_interrupt():
        assert signal.getsignal(signal.SIGINT) is handler
    assert signal.getsignal(signal.SIGINT) is handler
