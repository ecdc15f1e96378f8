"""File watches on the kernel's own inotify: renames, removed and recreated directories, overflows and failures."""

from __future__ import annotations

import errno
import os
import select
import shutil
import struct
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.kubelet_files import replace
from support.waiting import PATIENCE
from zonewise.daemon.components import ensure_notify_file, watch_rules
from zonewise.daemon.events import Reason
from zonewise.daemon.events.file_watches import FileWatches, WatchRule
from zonewise.daemon.events.inotify import Inotify, InotifyEvent, InotifyMask, decode
from zonewise.daemon.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Watching:
    """File watches and the reasons that they report within a time limit."""

    def __init__(self, *rules: WatchRule, open_queue: Callable[[], Inotify] = Inotify) -> None:
        self.watches = FileWatches(rules, open_queue)

    def wait_for(self, expected: Reason | None = None) -> set[Reason]:
        """Return the reasons reported until `expected` arrives; without `expected`, return the pending reasons."""
        poll = select.poll()
        poll.register(self.watches.fileno(), select.POLLIN)
        reasons: set[Reason] = set()
        deadline = time.monotonic() + PATIENCE
        while True:
            ready = poll.poll(100 if expected is not None else 0)
            reasons |= self.watches.read() if ready else set()
            if (expected is None and not ready) or expected in reasons:
                return reasons
            assert time.monotonic() < deadline, f"{expected} does not come"


@pytest.fixture
def watching() -> Iterator[Callable[..., Watching]]:
    """Return a function that makes watches; they are closed at the end."""
    opened: list[Watching] = []

    def make(*rules: WatchRule, open_queue: Callable[[], Inotify] = Inotify) -> Watching:
        opened.append(Watching(*rules, open_queue=open_queue))
        return opened[-1]

    yield make
    for watch in opened:
        watch.watches.close()


def test_a_replaced_file_is_reported_each_time(watching: Callable[..., Watching], tmp_path: Path) -> None:
    """The kubelet writes a temporary file and renames it, repeatedly; the temporary file itself matches no rule."""
    files = watching(WatchRule(str(tmp_path), ("cpu_manager_state",), Reason.STATE))
    for _ in range(3):
        replace(tmp_path / "cpu_manager_state")
        assert files.wait_for() == {Reason.STATE}
    replace(tmp_path / "pod_status_manager_state")
    (tmp_path / ".tmp77").write_bytes(b"x")
    assert files.wait_for() == set()


def test_each_way_to_change_a_file(watching: Callable[..., Watching], tmp_path: Path) -> None:
    """A file is written in place, removed, created, linked or moved away."""
    path = tmp_path / "config.yaml"
    files = watching(WatchRule(str(tmp_path), ("config.yaml",), Reason.CONFIG))
    for change in (
        lambda: path.write_text("a"),
        lambda: path.write_text("b"),
        lambda: path.unlink(),
        lambda: path.symlink_to("elsewhere"),
        lambda: path.rename(tmp_path / "away"),
    ):
        change()
        assert files.wait_for() == {Reason.CONFIG}
    path.with_name("other").write_text("")
    assert files.wait_for() == set()


def test_touched_files_are_reported_if_requested(watching: Callable[..., Watching], tmp_path: Path) -> None:
    """With `touched`, changes of attributes and writes to an open file are reported."""
    path = tmp_path / "notify"
    path.touch()
    files = watching(
        WatchRule(str(tmp_path), ("notify",), Reason.NOTIFY, touched=True),
        WatchRule(str(tmp_path), ("plain",), Reason.STATE),
    )
    path.chmod(0o600)
    assert files.wait_for() == {Reason.NOTIFY}
    os.utime(path)
    assert files.wait_for() == {Reason.NOTIFY}
    with path.open("w") as file:
        files.wait_for()
        file.write("x")
        file.flush()
        assert files.wait_for() == {Reason.NOTIFY}
    path.unlink()
    path.touch()
    assert files.wait_for() == {Reason.NOTIFY}


def test_several_reasons_in_one_directory(watching: Callable[..., Watching], tmp_path: Path) -> None:
    """The kubelet's directory contains its state, and often its configuration."""
    files = watching(
        WatchRule(str(tmp_path), ("cpu_manager_state", "memory_manager_state"), Reason.STATE),
        WatchRule(str(tmp_path), ("*.yaml",), Reason.CONFIG),
    )
    replace(tmp_path / "memory_manager_state")
    replace(tmp_path / "config.yaml")
    assert files.wait_for() == {Reason.STATE, Reason.CONFIG}


def test_a_directory_that_is_created_later(watching: Callable[..., Watching], tmp_path: Path) -> None:
    """Several levels are created.

    The new directory is reported once, since it may already contain files; then each file is.
    """
    directory = tmp_path / "kubelet" / "device-plugins"
    files = watching(WatchRule(str(directory), ("*.sock",), Reason.DEVICES))
    (tmp_path / "unrelated").mkdir()
    assert files.wait_for() == set()
    directory.mkdir(parents=True)
    assert files.wait_for(Reason.DEVICES) == {Reason.DEVICES}
    (directory / "gpu.sock").touch()
    assert files.wait_for(Reason.DEVICES) == {Reason.DEVICES}
    assert files.wait_for() == set()


def test_a_directory_is_removed_and_recreated(watching: Callable[..., Watching], tmp_path: Path) -> None:
    """A directory is removed, moved or replaced, with all its parents. Only files in the new directory are reported."""
    top = tmp_path / "lib"
    directory = top / "kubelet"
    directory.mkdir(parents=True)
    files = watching(WatchRule(str(directory), ("state",), Reason.STATE))
    shutil.rmtree(directory)
    assert files.wait_for(Reason.STATE) == {Reason.STATE}
    directory.mkdir()
    assert files.wait_for(Reason.STATE) == {Reason.STATE}
    directory.rename(tmp_path / "old")
    directory.mkdir()
    files.wait_for(Reason.STATE)
    replace(tmp_path / "old" / "state")
    assert files.wait_for() == set()
    shutil.rmtree(top)
    files.wait_for(Reason.STATE)
    directory.mkdir(parents=True)
    files.wait_for(Reason.STATE)
    replace(directory / "state")
    assert files.wait_for(Reason.STATE) == {Reason.STATE}


def test_a_replaced_parent_directory_is_noticed_at_the_next_settle(
    watching: Callable[..., Watching], tmp_path: Path
) -> None:
    """Neither this nor a mount causes an event of inotify. Each wait therefore begins with settle()."""
    top = tmp_path / "lib"
    directory = top / "kubelet"
    directory.mkdir(parents=True)
    files = watching(WatchRule(str(directory), ("state",), Reason.STATE))
    top.rename(tmp_path / "old")
    directory.mkdir(parents=True)
    assert files.wait_for() == set()
    assert files.watches.settle() == {Reason.STATE}
    assert files.watches.settle() == set()
    replace(tmp_path / "old" / "kubelet" / "state")
    assert files.wait_for() == set()
    replace(directory / "state")
    assert files.wait_for() == {Reason.STATE}


def test_a_recreated_socket(watching: Callable[..., Watching], tmp_path: Path) -> None:
    """The kubelet removes the old socket and binds a new one when it starts."""
    import socket

    path = tmp_path / "kubelet.sock"
    files = watching(WatchRule(str(tmp_path), ("kubelet.sock",), Reason.SOCKET))
    for _ in range(2):
        path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
        assert files.wait_for() == {Reason.SOCKET}


class Overflowing(Inotify):
    """An inotify queue that overflows once."""

    full = True

    def read(self) -> list[InotifyEvent]:
        full, self.full = self.full, False
        return [*([InotifyEvent(-1, InotifyMask.Q_OVERFLOW, "")] if full else []), *super().read()]


def test_an_overflow_is_a_change_everywhere(watching: Callable[..., Watching], tmp_path: Path) -> None:
    files = watching(
        WatchRule(str(tmp_path), ("a",), Reason.STATE), WatchRule(str(tmp_path / "b"), ("c",), Reason.SOCKET),
        open_queue=Overflowing,
    )  # fmt: skip
    assert files.watches.read() == {Reason.STATE, Reason.SOCKET}
    assert files.watches.read() == set()


class RejectingWatches(Inotify):
    """An inotify queue that rejects watches until `allowed` is set."""

    allowed = False

    def add(self, directory: str, mask: int) -> int:
        if not self.allowed:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), directory)
        return super().add(directory, mask)


def test_without_kernel_watches_files_are_polled(
    watching: Callable[..., Watching], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The failure is logged once. Each settle() polls the files and tries to watch them again."""
    queue = RejectingWatches()
    late = tmp_path / "late"
    files = watching(
        WatchRule(str(tmp_path), ("state",), Reason.STATE), WatchRule(str(late), ("*",), Reason.DEVICES),
        open_queue=lambda: queue,
    ).watches  # fmt: skip
    assert files.polled
    assert files.settle() == set()
    replace(tmp_path / "state")
    (tmp_path / "other").touch()
    assert files.settle() == {Reason.STATE}
    replace(tmp_path / "state")
    assert files.settle() == {Reason.STATE}
    assert files.settle() == set()
    late.mkdir()
    assert files.settle() == {Reason.DEVICES}
    (late / "x").touch()
    assert files.settle() == {Reason.DEVICES}
    queue.allowed = True
    files.settle()
    assert not files.polled
    replace(tmp_path / "state")
    assert files.read() == {Reason.STATE}
    messages = [record.message for record in caplog.records if "max_user_watches" in record.message]
    assert len(messages) == 1
    assert messages[0].startswith(f"{tmp_path}: the kernel cannot watch it: No space left on device; its files are ")


def test_without_a_kernel_queue_files_are_polled(
    watching: Callable[..., Watching], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> Inotify:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), "inotify_init1")

    files = watching(WatchRule(str(tmp_path), ("state",), Reason.STATE), open_queue=fail).watches
    assert files.fileno() == -1
    assert files.polled
    assert files.read() == set()
    replace(tmp_path / "state")
    assert files.settle() == {Reason.STATE}
    assert "max_user_instances" in caplog.text


EVENTS = st.lists(
    st.builds(InotifyEvent, st.integers(-1, 1000), st.integers(0, 2**32 - 1), st.text("abc.", max_size=20))
)


@given(EVENTS, st.integers(0, 15))
def test_events_decode_as_the_kernel_lays_them_out(events: list[InotifyEvent], padding: int) -> None:
    """Names are padded with any number of NULs; an event of the directory itself has no name."""
    buffer = b"".join(
        struct.pack("iIII", event.watch, event.mask, 0, len(name)) + name
        for event in events
        for name in [event.name.encode() + b"\0" * (1 + padding) if event.name else b""]
    )
    assert list(decode(buffer)) == events


# --- which files


SETTINGS = Settings(kubelet_dir="/k", node_ip="10.0.0.7").completed()


def reasons_for(path: str, settings: Settings, settings_file: str = "") -> set[Reason]:
    directory, name = os.path.split(path)
    return {
        rule.reason
        for rule in watch_rules(settings, settings_file)
        if rule.directory == directory and rule.matches(name)
    }


@pytest.mark.parametrize(
    ("path", "reasons"),
    [
        ("/k/cpu_manager_state", {Reason.STATE}),
        ("/k/memory_manager_state", {Reason.STATE}),
        ("/k/dra_manager_state", {Reason.STATE}),
        ("/k/device-plugins/kubelet_internal_checkpoint", {Reason.DEVICES}),
        ("/k/device-plugins/nvidia-gpu.sock", {Reason.DEVICES}),
        ("/k/pod-resources/kubelet.sock", {Reason.SOCKET}),
        ("/k/pods-api/pods-api.sock", {Reason.SOCKET}),
        ("/etc/kubernetes/node-feature-discovery/features.d/rack", {Reason.FEATURES}),
        ("/etc/kubernetes/node-feature-discovery/features.d/..data", {Reason.FEATURES}),
    ],
)
def test_watched_files(path: str, reasons: set[Reason]) -> None:
    assert reasons_for(path, SETTINGS) == reasons


@pytest.mark.parametrize(
    "path",
    [
        "/k/pod_status_manager_state",
        "/k/config.yaml",
        "/k/device-plugins/.123",
        "/etc/kubernetes/node-feature-discovery/features.d/.rack.new",
    ],
)
def test_irrelevant_files(path: str) -> None:
    """The kubelet's configuration files are irrelevant if /configz is used."""
    assert reasons_for(path, SETTINGS) == set()


def test_configured_files() -> None:
    settings = SETTINGS._replace(kubelet_config="/k/config.yaml", kubelet_config_drop_ins="/d", notify_file="/n/[x]")
    expected = {
        "/k/config.yaml": Reason.CONFIG,
        "/d/10-a.conf": Reason.CONFIG,
        "/d/..data": Reason.CONFIG,
        "/n/[x]": Reason.NOTIFY,
        "/etc/zonewise/agent.yaml": Reason.RELOAD,
        "/etc/zonewise/..data": Reason.RELOAD,
    }
    assert {path: reasons_for(path, settings, "/etc/zonewise/agent.yaml") for path in expected} == {
        path: {reason} for path, reason in expected.items()
    }
    assert [rule.directory for rule in watch_rules(settings) if rule.touched] == ["/n"]


def test_the_notification_file_is_created(tmp_path: Path) -> None:
    """The file is created with its directory, for its owner and group; an existing file is not changed."""
    path = tmp_path / "run" / "zonewise" / "notify"
    ensure_notify_file(str(path))
    assert path.read_bytes() == b""
    assert path.parent.stat().st_mode & 0o777 == 0o750
    path.write_bytes(b"kept")
    ensure_notify_file(str(path))
    assert path.read_bytes() == b"kept"


def test_a_notification_path_that_is_not_a_file_is_rejected(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for name in (".", "fifo"):
        with pytest.raises(OSError, match=r"Is a directory|is not a regular file|No such device"):
            ensure_notify_file(str(tmp_path / name))


def test_cgroups_of_pods(tmp_path: Path, watching: Callable[..., Watching]) -> None:
    """A pod's cgroup that appears or disappears is reported, in every QoS class."""
    mount = tmp_path / "sys" / "fs" / "cgroup"
    burstable = mount / "kubepods.slice" / "kubepods-burstable.slice"
    burstable.mkdir(parents=True)
    (mount / "cgroup.controllers").touch()
    watches = watching(*watch_rules(Settings(root=str(tmp_path), kubelet_dir=str(tmp_path / "k"))))
    assert watches.wait_for() == set()
    for directory in (mount / "kubepods.slice" / "kubepods-pod1.slice", burstable / "kubepods-burstable-pod2.slice"):
        directory.mkdir()
        assert watches.wait_for(Reason.PODS) == {Reason.PODS}
        directory.rmdir()
        assert watches.wait_for(Reason.PODS) == {Reason.PODS}
