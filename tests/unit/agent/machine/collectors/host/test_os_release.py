"""os-release: the fields of the distribution, parsed like a shell does."""

from __future__ import annotations

import pytest
from hypothesis import given

from support.damage import DAMAGES, Damage, Damaged
from zonewise.machine.collector import Peek
from zonewise.machine.collectors.host.os_release import COLLECTOR, PATHS
from zonewise.machine.discover import Scan, Scanner
from zonewise.machine.files import MemoryFiles

DEBIAN = b"""PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"
NAME='Debian GNU/Linux'
# a comment
VERSION_ID="12"
ID=debian
"""


def scan(tree: dict[str, bytes], damages: dict[str, Damage] | None = None) -> Scan:
    files = Damaged(MemoryFiles(tree.items()), damages or {})
    return Scanner(files, explain=True, collectors=(COLLECTOR,)).scan()


def test_the_fields() -> None:
    """Every assignment is a field, without its quotes; other lines are not."""
    discovered = scan({PATHS[0]: DEBIAN})
    assert discovered.machine.os_release == {
        "PRETTY_NAME": "Debian GNU/Linux 12 (bookworm)",
        "NAME": "Debian GNU/Linux",
        "VERSION_ID": "12",
        "ID": "debian",
    }
    assert discovered.sources["os_release"].file == "/etc/os-release"
    assert discovered.machine.problems == ()


def test_the_fallback_path() -> None:
    """If /etc has no file, the distribution's own copy is read."""
    assert (scan({PATHS[1]: DEBIAN}).machine.os_release or {})["ID"] == "debian"


@pytest.mark.parametrize(
    ("line", "value"),
    [(b'A="x \\"y\\""\n', 'x "y"'), (b"A='a\\b'\n", "a\\b"), (b"A=\n", ""), (b'A="\n', '"'), (b"A=b=c\n", "b=c")],
)
def test_quotes(line: bytes, value: str) -> None:
    """Quotes of both kinds are removed; escaped characters remain."""
    assert scan({PATHS[0]: line}).machine.os_release == {"A": value}


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\xfe", b"no assignment\n"])
def test_nothing_is_assigned(content: bytes) -> None:
    """An empty file is reported, and the fact is unknown."""
    machine = scan({PATHS[0]: content}).machine
    assert machine.os_release is None
    assert [problem.path for problem in machine.problems] == ["/etc/os-release"]


def test_a_truncated_file_is_reported() -> None:
    """The rest of a truncated file is used, and the cut is reported."""
    machine = scan({PATHS[0]: DEBIAN[:-1]}).machine
    assert len(machine.os_release or {}) == 4
    assert len(machine.problems) == 1


@given(DAMAGES)
def test_damage_does_not_fail_the_collector(damage: Damage) -> None:
    """Whatever happens to the file, the collector does not fail."""
    runs = scan({PATHS[0]: DEBIAN}, {PATHS[0]: damage}).runs
    assert [run for run in runs if run.outcome == "failed"] == []


def test_an_update_is_noticed() -> None:
    """Another content gives another signature."""
    before, after = (Peek(MemoryFiles([(PATHS[0], text)])) for text in (DEBIAN, DEBIAN.replace(b"12", b"13")))
    assert COLLECTOR.volatile(before) != COLLECTOR.volatile(after)
