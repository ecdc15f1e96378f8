"""Damage to a machine's files, such as disk errors, kernel errors or deletions, and invariants of damaged scans."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, NamedTuple

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise.machine.files import Files

DELETE, LOOP, DENY, IO_ERROR, DIRECTORY = "delete", "loop", "deny", "io error", "directory"
_ERRORS = {DELETE: errno.ENOENT, LOOP: errno.ELOOP, DENY: errno.EACCES, IO_ERROR: errno.EIO, DIRECTORY: errno.EISDIR}


class Damage(NamedTuple):
    """The damage to one file."""

    kind: str
    """One of the errors above, "cut" (truncated to a length), or "content" (replaced)."""
    length: int = 0
    content: bytes = b""


DAMAGES = st.one_of(
    st.sampled_from([Damage(kind) for kind in _ERRORS]),
    st.builds(Damage, st.just("cut"), st.integers(0, 40)),
    st.builds(
        Damage,
        st.just("content"),
        st.just(0),
        st.one_of(
            st.sampled_from(
                (
                    *(
                        b"",
                        b"\n",
                        b"\0",
                        b"\xff\xfe\xfa\n",
                        b"9" * 40 + b"\n",
                        b"-1\n",
                        b"0-99999999999\n",
                        b"(null)\n",
                    ),
                    *(b"4294967295\n", b"0x" + b"f" * 30 + b"\n", b"1 2 3 4 5 6 7\n", b"," * 50 + b"\n", b"0-3,\n"),
                )
            ),
            st.binary(max_size=30),
            st.text(max_size=20).map(str.encode),
        ),
    ),
)


class Recording:
    """A wrapper of files that records which files were read and which directories were listed."""

    live = False

    def __init__(self, files: Files) -> None:
        self._files = files
        self.reads: list[str] = []
        self.listings: list[str] = []

    def read(self, path: str) -> bytes:
        content = self._files.read(path)
        self.reads.append(path)
        return content

    def names(self, path: str) -> list[str]:
        found = self._files.names(path)
        self.listings.append(path)
        return found

    def link(self, path: str) -> str:
        return self._files.link(path)


class Damaged:
    """Files with damage to some of them, by the paths under which discovery reads them."""

    live = False

    def __init__(self, files: Files, damages: Mapping[str, Damage]) -> None:
        self._files = files
        self._damages = damages

    def _raise(self, path: str) -> None:
        damage = self._damages.get(path)
        if damage is not None and (number := _ERRORS.get(damage.kind)):
            raise OSError(number, os.strerror(number), path)

    def read(self, path: str) -> bytes:
        self._raise(path)
        damage = self._damages.get(path)
        if damage is None:
            return self._files.read(path)
        return damage.content if damage.kind == "content" else self._files.read(path)[: damage.length]

    def names(self, path: str) -> list[str]:
        self._raise(path)
        found = self._files.names(path)
        gone = {name for name in found if self._damages.get(f"{path}/{name}", Damage("")).kind == DELETE}
        return [name for name in found if name not in gone]

    def link(self, path: str) -> str:
        self._raise(path)
        return self._files.link(path)
