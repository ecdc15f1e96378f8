"""A viewer's token in the user's cache directory, so that not every command requests one and has it reviewed.

The controller limits the reviews of new tokens. Users who run `zonewise queue` every few seconds would exceed the limit
if each command had a new one. Only the user may read the file. The token gives access to the read API and to nothing
else, and expires within ten minutes. Without a cache directory, each command requests its own.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from zonewise_common.atomic_file import replace_file
from zonewise_common.kube.credentials import checked_token
from zonewise_common.kube.errors import KubeError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zonewise_common.kube.config import Config

CACHE_VARIABLE = "ZONEWISE_CACHE_DIR"
"""The environment variable for the cache directory; if it is empty, tokens are not kept."""
_MAX_BYTES = 64 * 1024
"""Maximum size of a file that is read; a token has about a kilobyte."""


class StoredToken(msgspec.Struct, frozen=True):
    """The content of a file."""

    token: str
    renew_at: float
    """Time of renewal, in seconds since 1970."""


class UsableToken(NamedTuple):
    """A stored token that needs no renewal yet."""

    token: str
    seconds: float
    """Seconds until its renewal."""


class TokenFile:
    """The token for one server and namespace. No method fails: without a usable file there is no token."""

    def __init__(self, path: Path | None, clock: Callable[[], float] = time.time) -> None:
        """`path`: None if there is no cache directory. `clock` returns seconds since 1970."""
        self._path = path
        self._clock = clock

    def read(self, lifetime: float) -> UsableToken | None:
        """Return the token, unless it is due for renewal. `lifetime`: seconds from issue to renewal."""
        if self._path is None:
            return None
        try:
            stored = msgspec.json.decode(_own_content(self._path), type=StoredToken)
            token = checked_token(stored.token)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, KubeError):
            return None
        seconds = stored.renew_at - self._clock()
        return UsableToken(token, seconds) if 0 < seconds <= lifetime else None

    def write(self, token: str, seconds: float) -> None:
        """Replace the token; it is due for renewal after these seconds."""
        if self._path is None:
            return
        content = msgspec.json.encode(StoredToken(token, self._clock() + seconds))
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(str(self._path), content, 0o600)

    def remove(self, token: str) -> None:
        """Remove the file if it contains this token; another command may have renewed it."""
        if self._path is not None and (stored := self.read(float("inf"))) is not None and stored.token == token:
            with suppress(OSError):
                self._path.unlink()


NO_FILE = TokenFile(None)
"""For clients without a cache directory."""


def token_file(config: Config, namespace: str, environment: Mapping[str, str]) -> TokenFile:
    """Return the file for a kubeconfig's user and the controller's namespace.

    Without a kubeconfig, as in a pod, there is none.
    """
    directory = _cache_directory(environment)
    if not directory or not config.user:
        return NO_FILE
    name = hashlib.sha256("\0".join((config.url, config.user, namespace)).encode()).hexdigest()[:32]
    return TokenFile(Path(directory, f"token-{name}.json"))


def _cache_directory(environment: Mapping[str, str]) -> str:
    """Return $ZONEWISE_CACHE_DIR, else a directory in $XDG_CACHE_HOME or ~/.cache; "" if there is none."""
    own = environment.get(CACHE_VARIABLE)
    if own is not None:
        return own
    cache, home = environment.get("XDG_CACHE_HOME", ""), environment.get("HOME", "")
    if not os.path.isabs(cache):  # the XDG Base Directory Specification says to ignore a relative path
        cache = os.path.join(home, ".cache") if os.path.isabs(home) else ""
    return cache and os.path.join(cache, "zonewise")


def _own_content(path: Path) -> bytes:
    """Return the content of a regular file that belongs to the user and that no other user may read. Raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise PermissionError(path)
        return file.read(_MAX_BYTES)
