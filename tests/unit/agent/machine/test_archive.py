"""Opening a root: the root directory of an archive, every compression, and every kind of damage."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import tarfile
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zonewise.machine import archive
from zonewise.machine.archive import open_root
from zonewise.machine.files import RootError
from zonewise.machine.zstd import zstd

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "tar": bytes,
    "tar.gz": gzip.compress,
    "tar.bz2": bz2.compress,
    "tar.xz": lzma.compress,
    "tar.zst": zstd.compress,
}


def pack_tar(entries: dict[str, bytes | str | None]) -> bytes:
    """Return a tar: bytes are files, None is a directory, a str is a symbolic link, with a leading = a hard link."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in entries.items():
            member = tarfile.TarInfo(name)
            if content is None:
                member.type = tarfile.DIRTYPE
            elif isinstance(content, str):
                member.type = tarfile.LNKTYPE if content.startswith("=") else tarfile.SYMTYPE
                member.linkname = content.removeprefix("=")
            else:
                member.size = len(content)
            tar.addfile(member, io.BytesIO(content) if isinstance(content, bytes) else None)
    return buffer.getvalue()


MACHINE = pack_tar({"m/sys/a": b"1\n", "m/sys/b": "a", "m/sys/hard": "=m/sys/a", "m/proc": None, "m/other": b""})


@pytest.mark.parametrize("ending", COMPRESSIONS)
def test_every_compression_gives_the_same_machine(tmp_path: Path, ending: str) -> None:
    """The content decides how an archive is read; the files below its top directory are the root."""
    file = tmp_path / "any-name"
    file.write_bytes(COMPRESSIONS[ending](MACHINE))
    files = open_root(str(file))
    assert [files.read(f"sys/{name}") for name in ("a", "b", "hard")] == [b"1\n"] * 3
    assert sorted(files.names("")) == ["other", "proc", "sys"]


@pytest.mark.parametrize(
    ("entries", "path"),
    [
        ({"sys/a": b"1"}, "sys/a"),
        ({"./sys/a": b"1"}, "sys/a"),
        ({"/sys/a": b"1"}, "sys/a"),
        ({"top/proc/a": b"1"}, "proc/a"),
        ({"top/fsroot/sys/a": b"1"}, "sys/a"),
        ({"sys/a": b"1", "sys/proc/b": b"2"}, "sys/proc/b"),
    ],
)
def test_the_shallowest_directory_with_sys_or_proc_is_the_root(
    tmp_path: Path, entries: dict[str, bytes | str | None], path: str
) -> None:
    """A root is found below other directories, in an archive and in a directory alike."""
    file = tmp_path / "machine.tar"
    file.write_bytes(pack_tar(entries))
    assert open_root(str(file)).read(path)
    with tarfile.open(file) as tar:
        for member in tar:
            member.name = member.name.lstrip("/")
            tar.extract(member, tmp_path / "unpacked", filter="fully_trusted")
    assert open_root(str(tmp_path / "unpacked")).read(path)


def error_message(path: Path) -> str:
    with pytest.raises(RootError) as caught:
        open_root(str(path))
    return str(caught.value)


def test_a_file_that_is_not_a_machine_is_rejected_in_one_line(tmp_path: Path) -> None:
    """Any input that cannot be a root gives a one-line error that names it and the reason."""
    (tmp_path / "text").write_text("not a tar")
    (tmp_path / "empty").touch()
    (tmp_path / "bare.tar").write_bytes(pack_tar({"etc/passwd": b""}))
    (tmp_path / "directory").mkdir()
    (tmp_path / "cut.gz").write_bytes(gzip.compress(MACHINE)[:60])
    (tmp_path / "cut.zst").write_bytes(zstd.compress(MACHINE)[:-30])
    (tmp_path / "noise.zst").write_bytes(b"\x28\xb5\x2f\xfd" + b"\xff" * 40)
    reasons = {
        "absent": "no such file",
        "text": "not a complete archive",
        "empty": "not a complete archive",
        "bare.tar": "neither sys/ nor proc/",
        "directory": "neither sys/ nor proc/",
        "cut.gz": "not a complete archive",
        "cut.zst": "not a complete archive",
        "noise.zst": "not a complete archive",
    }
    for name, reason in reasons.items():
        message = error_message(tmp_path / name)
        assert reason in message, name
        assert name in message
        assert "\n" not in message


@pytest.mark.parametrize("ending", COMPRESSIONS)
@pytest.mark.parametrize("cut", [1536, 2048, 2060, 3000])
def test_an_archive_that_lacks_members_is_rejected(tmp_path: Path, ending: str, cut: int) -> None:
    """It is cut off before a header, or within one, or has a damaged header. Its compression is complete."""
    content = pack_tar({f"sys/{number}": b"content" for number in range(4)})
    damaged = content[:2050] + b"?" + content[2051:]
    for number, tar in enumerate((content[:cut], damaged)):
        path = tmp_path / f"{number}.{ending}"
        path.write_bytes(COMPRESSIONS[ending](tar))
        with pytest.raises(RootError, match="not a complete archive"):
            open_root(str(path))


def test_the_end_of_an_archive_may_be_one_block_of_zeros(tmp_path: Path) -> None:
    content = pack_tar({"sys/a": b"content"})
    for length in (1536, len(content)):
        (tmp_path / "one.tar").write_bytes(content[:length])
        assert open_root(str(tmp_path / "one.tar")).read("sys/a") == b"content"


def test_a_directory_of_several_machines_is_rejected(tmp_path: Path) -> None:
    """The choice between several machines is not guessed."""
    for name in ("one", "two"):
        (tmp_path / name / "sys").mkdir(parents=True)
    assert "several machines" in error_message(tmp_path)


@pytest.mark.parametrize("ending", COMPRESSIONS)
def test_an_archive_that_unpacks_without_end_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    """A decompression bomb is rejected before it fills the memory, as a large file or as a large file header."""
    monkeypatch.setattr(archive, "MAX_CAPTURE", 1 << 20)
    monkeypatch.setattr(archive, "MAX_MEMBERS", 8)
    file = tmp_path / "bomb"
    long_name = tarfile.TarInfo("sys/a")
    long_name.pax_headers = {"comment": "x" * (20 << 20)}
    for content in (pack_tar({"sys/a": bytes(2 << 20)}), long_name.tobuf(tarfile.PAX_FORMAT)):
        file.write_bytes(COMPRESSIONS[ending](content))
        tracemalloc.start()
        try:
            assert "unpacks to more than" in error_message(file)
            assert tracemalloc.get_traced_memory()[1] < 16 << 20  # xz itself has a dictionary of 8 MiB
        finally:
            tracemalloc.stop()


def test_an_archive_of_too_many_members_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_MEMBERS", 3)
    (tmp_path / "machine.tar").write_bytes(pack_tar({"sys": None, "sys/a": b"1", "sys/b": "a"}))
    assert open_root(str(tmp_path / "machine.tar")).read("sys/b") == b"1"
    (tmp_path / "many.tar").write_bytes(pack_tar({f"sys/{number}": None for number in range(4)}))
    assert "contains more than 3 files" in error_message(tmp_path / "many.tar")


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(COMPRESSIONS)), st.data())
def test_any_damage_yields_a_machine_or_an_error_line(
    tmp_path_factory: pytest.TempPathFactory, ending: str, data: st.DataObject
) -> None:
    """Flipped or missing bytes anywhere in an archive give a readable machine or RootError."""
    whole = bytearray(COMPRESSIONS[ending](MACHINE))
    for _ in range(data.draw(st.integers(0, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    file = tmp_path_factory.mktemp("damaged") / "machine"
    file.write_bytes(bytes(whole[: data.draw(st.integers(0, len(whole)))]))
    with contextlib.suppress(RootError):
        assert set(open_root(str(file)).names("")) & {"sys", "proc"}
