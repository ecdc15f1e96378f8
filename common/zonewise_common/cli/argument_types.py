"""Argument types for argparse that several packages use. Each raises ArgumentTypeError with the expected form."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
MAX_PORT = 65535


def port(text: str) -> int:
    """Return a TCP port; 0 stands for any free port."""
    if not (re.fullmatch(r"[0-9]{1,5}", text, re.ASCII) and int(text) <= MAX_PORT):
        raise ArgumentTypeError(f"{text!r} is not a port from 0 to {MAX_PORT}")
    return int(text)


def checked(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Return a type for argparse that raises ArgumentTypeError with the message of a ValueError."""

    def argument(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise ArgumentTypeError(str(error)) from error

    return argument
