"""Argument types."""

from __future__ import annotations

from argparse import ArgumentTypeError

import pytest

from zonewise_common.cli.argument_types import checked, port


@pytest.mark.parametrize("text", ["0", "80", "65535"])
def test_ports(text: str) -> None:
    assert port(text) == int(text)


@pytest.mark.parametrize("text", ["", "-1", "65536", "http", "8 0", "٨", "1e3", "000080"])
def test_other_texts_are_no_ports(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="is not a port from 0 to 65535"):
        port(text)


def test_the_message_of_a_parser_becomes_that_of_the_argument() -> None:
    assert checked(int)("7") == 7
    with pytest.raises(ArgumentTypeError, match="invalid literal for int"):
        checked(int)("seven")
