"""The file that holds a viewer's token between commands."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from support.clock import Clock
from zonewise_common.kube.config import Config
from zonewise_scheduler.client.cluster.token_file import TokenFile, UsableToken, token_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LIFETIME = 480.0
CONFIG = Config("https://10.0.0.1:6443", user="ann")


def test_a_token_is_usable_until_its_renewal(tmp_path: Path) -> None:
    clock = Clock()
    path = tmp_path / "zonewise" / "token.json"
    TokenFile(path, clock).write("short", LIFETIME)
    other_command = TokenFile(path, clock)
    assert other_command.read(LIFETIME) == UsableToken("short", LIFETIME)
    clock.advance(LIFETIME - 1)
    assert other_command.read(LIFETIME) == UsableToken("short", 1)
    clock.advance(1)
    assert other_command.read(LIFETIME) is None


def test_only_its_owner_may_read_the_file(tmp_path: Path) -> None:
    path = tmp_path / "cache" / "zonewise" / "token.json"
    TokenFile(path).write("short", LIFETIME)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert [file.name for file in path.parent.iterdir()] == ["token.json"]


def _make_readable(path: Path) -> None:
    path.chmod(0o640)


def _make_link(path: Path) -> None:
    path.rename(path.with_suffix(".other"))
    path.symlink_to(path.with_suffix(".other"))


def _make_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def _make_directory(path: Path) -> None:
    path.unlink()
    path.mkdir(0o700)


@pytest.mark.parametrize("change", [_make_readable, _make_link, _make_pipe, _make_directory])
def test_a_file_that_others_may_have_written_is_not_used(change: Callable[[Path], None], tmp_path: Path) -> None:
    """Nor does reading a named pipe wait for a writer."""
    path = tmp_path / "token.json"
    subject = TokenFile(path)
    subject.write("short", LIFETIME)
    change(path)
    assert subject.read(LIFETIME) is None


def test_a_file_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = TokenFile(tmp_path / "token.json")
    subject.write("short", LIFETIME)
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    assert subject.read(LIFETIME) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b'{"token": "short"}',
        b'{"token": 5, "renew_at": 100}',
        b'{"token": "", "renew_at": 100}',
        b'{"token": "two\\nlines", "renew_at": 100}',
        b'{"token": "short", "renew_at": "soon"}',
        b'{"token": "short", "renew_at": 1e300}',
        b'{"token": "short", "renew_at": ' + b"1" * 70_000 + b"}",
    ],
)
def test_a_damaged_file_has_no_token(content: bytes, tmp_path: Path) -> None:
    """A renewal later than any token's is damage too, or the clock was set back."""
    path = tmp_path / "token.json"
    path.touch(0o600)
    path.write_bytes(content)
    subject = TokenFile(path, lambda: 0.0)
    assert subject.read(LIFETIME) is None
    subject.remove("short")
    subject.write("new", LIFETIME)
    assert subject.read(LIFETIME) == UsableToken("new", LIFETIME)


def test_a_command_removes_only_the_token_that_was_rejected(tmp_path: Path) -> None:
    subject = TokenFile(tmp_path / "token.json", lambda: 0.0)
    subject.write("renewed by another command", LIFETIME)
    subject.remove("rejected")
    assert subject.read(LIFETIME) is not None
    subject.remove("renewed by another command")
    assert not list(tmp_path.iterdir())


def test_without_a_writable_directory_there_is_no_token(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (None, tmp_path / "file" / "zonewise" / "token.json"):
        subject = TokenFile(path)
        subject.write("short", LIFETIME)
        assert subject.read(LIFETIME) is None
        subject.remove("short")


def test_an_interrupted_write_leaves_the_earlier_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = TokenFile(tmp_path / "token.json", lambda: 0.0)
    subject.write("earlier", LIFETIME)

    def fail(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "replace", fail)
    subject.write("later", LIFETIME)
    assert subject.read(LIFETIME) == UsableToken("earlier", LIFETIME)
    assert [file.name for file in tmp_path.iterdir()] == ["token.json"]


def test_users_servers_and_namespaces_have_separate_files(tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path), "HOME": "/nonexistent"}
    configs = [CONFIG, CONFIG._replace(user="bob"), CONFIG._replace(url="https://10.0.0.2:6443")]
    for number, config in enumerate(configs):
        token_file(config, "zonewise", environment).write(f"t{number}", LIFETIME)
    token_file(CONFIG, "other", environment).write("t3", LIFETIME)
    assert {json.loads(file.read_bytes())["token"] for file in (tmp_path / "zonewise").iterdir()} == {
        "t0", "t1", "t2", "t3"
    }  # fmt: skip
    own = token_file(CONFIG, "zonewise", environment).read(LIFETIME)
    assert own is not None
    assert own[0] == "t0"


@pytest.mark.parametrize(
    ("environment", "directory"),
    [
        ({"HOME": "{}"}, ".cache/zonewise"),
        ({"HOME": "{}", "XDG_CACHE_HOME": "relative"}, ".cache/zonewise"),
        ({"HOME": "{}", "XDG_CACHE_HOME": "{}/own"}, "own/zonewise"),
        ({"HOME": "{}", "XDG_CACHE_HOME": "{}/own", "ZONEWISE_CACHE_DIR": "{}/mine"}, "mine"),
        ({"HOME": "{}", "XDG_CACHE_HOME": "{}/own", "ZONEWISE_CACHE_DIR": ""}, ""),
        ({"HOME": "relative"}, ""),
        ({}, ""),
    ],
)
def test_the_directory_follows_the_xdg_specification(
    environment: dict[str, str], directory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    token_file(CONFIG, "zonewise", {name: value.format(tmp_path) for name, value in environment.items()}).write("t", 9)
    files = [str(file.parent.relative_to(tmp_path)) for file in tmp_path.rglob("*.json")]
    assert files == ([directory] if directory else [])


def test_without_a_kubeconfig_there_is_no_file(tmp_path: Path) -> None:
    """A pod has its own identity, and its file system is usually read-only."""
    token_file(CONFIG._replace(user=""), "zonewise", {"XDG_CACHE_HOME": str(tmp_path)}).write("t", LIFETIME)
    assert not list(tmp_path.iterdir())
