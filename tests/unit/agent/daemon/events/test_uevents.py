"""The kernel's messages about hardware: their format, which of them matter, and a socket that receives them."""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise.daemon.events import Reason
from zonewise.daemon.events.uevents import Uevent, Uevents, open_uevents, parse_uevent

if TYPE_CHECKING:
    from collections.abc import Iterator

PCI = "/devices/pci0000:00/0000:00:01.0"


def message(action: str, subsystem: str, path: str) -> bytes:
    """Return a message as alloc_uevent_skb() and add_uevent_var() in lib/kobject_uevent.c build it."""
    keys = (f"ACTION={action}", f"DEVPATH={path}", f"SUBSYSTEM={subsystem}", "SEQNUM=4711")
    return "\0".join((f"{action}@{path}", *keys, "")).encode()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, Uevents]]:
    """Return a sender that stands in for the kernel, and its receiver."""
    sender, receiver = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with sender, receiver:
        yield sender, Uevents(receiver)


@given(
    st.sampled_from(["add", "remove", "change", "offline"]),
    st.from_regex("[a-z_]{1,10}", fullmatch=True),
    st.from_regex("/[a-z0-9:@./]{0,30}", fullmatch=True),
)
def test_a_message_parses_to_its_parts(action: str, subsystem: str, path: str) -> None:
    """Paths may contain any character except NUL, even an at sign."""
    assert parse_uevent(message(action, subsystem, path)) == Uevent(action, subsystem, path)


@pytest.mark.parametrize("content", [b"", b"\0", b"libudev\0\xfe\xed\xca\xfe", b"add", b"add@relative", b"\xff\xfe"])
def test_messages_that_the_kernel_does_not_send_are_ignored(content: bytes) -> None:
    """Messages of udevd have a header of their own."""
    assert parse_uevent(content) is None


@given(st.binary(max_size=200))
def test_no_bytes_break_the_parser(content: bytes) -> None:
    parse_uevent(content)


@pytest.mark.parametrize(
    ("event", "matters"),
    [
        (Uevent("offline", "cpu", "/devices/system/cpu/cpu3"), True),
        (Uevent("online", "memory", "/devices/system/memory/memory40"), True),
        (Uevent("add", "node", "/devices/system/node/node1"), True),
        (Uevent("bind", "pci", PCI), True),
        (Uevent("remove", "net", f"{PCI}/net/eth0"), True),
        (Uevent("add", "infiniband", f"{PCI}/infiniband/mlx5_0"), True),
        (Uevent("change", "drm", f"{PCI}/drm/card0"), True),
        (Uevent("add", "nvme", "/devices/virtual/nvme-fabrics/ctl/nvme0"), True),
        (Uevent("add", "block", f"{PCI}/nvme/nvme0/nvme0n1"), True),
        (Uevent("add", "dax", "/devices/platform/hmem.0/dax0.0"), True),
        (Uevent("add", "cxl", "/devices/platform/ACPI0017:00/root0"), True),
        (Uevent("add", "accel", f"{PCI}/accel/accel0"), True),
        (Uevent("add", "net", "/devices/virtual/net/veth12"), False),
        (Uevent("change", "block", f"{PCI}/nvme/nvme0/nvme0n1"), False),
        (Uevent("add", "block", "/devices/virtual/block/loop0"), False),
        (Uevent("add", "queues", f"{PCI}/net/eth0/queues/rx-0"), False),
        (Uevent("add", "", "/module/nvme"), False),
    ],
)
def test_only_hardware_matters(event: Uevent, matters: bool) -> None:
    """The network interface of a pod and a mounted image come and go with each pod; they are not hardware."""
    assert event.matters is matters


def test_one_read_drains_all_messages(pair: tuple[socket.socket, Uevents]) -> None:
    """All pending messages are one reason; irrelevant messages and an empty socket are none."""
    sender, uevents = pair
    assert uevents.read() == set()
    sender.send(message("add", "net", "/devices/virtual/net/veth1"))
    assert uevents.read() == set()
    for _ in range(20):
        sender.send(message("add", "pci", PCI))
    assert uevents.read() == {Reason.HARDWARE}
    assert uevents.read() == set()


def test_a_message_of_udevd_is_ignored(pair: tuple[socket.socket, Uevents]) -> None:
    sender, uevents = pair
    sender.send(b"libudev\0" + message("add", "pci", PCI))
    assert uevents.read() == set()


class PreparedMessages(socket.socket):
    """A socket that returns prepared messages like a netlink socket of the kernel."""

    def __init__(self, *messages: OSError | tuple[bytes, object]) -> None:
        super().__init__(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.queue = list(messages)

    def recvfrom(self, *arguments: object) -> tuple[bytes, object]:  # pyright: ignore[reportIncompatibleMethodOverride]
        if not self.queue:
            raise BlockingIOError
        message = self.queue.pop(0)
        if isinstance(message, OSError):
            raise message
        return message


def test_a_full_queue_is_a_reason_to_scan() -> None:
    """The kernel then drops messages and returns ENOBUFS once (man 7 netlink). A dropped message may have mattered."""
    with PreparedMessages(OSError(errno.ENOBUFS, "No buffer space available")) as messages:
        assert Uevents(messages).read() == {Reason.HARDWARE}


def test_only_messages_of_the_kernel_count() -> None:
    """Messages of the kernel have port id 0 and group 1; those of a process have its own port id."""
    good = message("add", "pci", PCI)
    with PreparedMessages((good, (4711, 1)), (good, (0, 2))) as messages:
        assert Uevents(messages).read() == set()
    with PreparedMessages((good, (0, 1))) as messages:
        assert Uevents(messages).read() == {Reason.HARDWARE}


def test_a_broken_socket_is_not_silent() -> None:
    with (
        PreparedMessages(OSError(errno.EBADF, "Bad file descriptor")) as messages,
        pytest.raises(OSError, match="Bad file"),
    ):
        Uevents(messages).read()


def test_without_permission_there_are_no_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> socket.socket:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(socket, "socket", fail)
    assert open_uevents() is None


def test_the_kernels_own_socket() -> None:
    """A socket that can be bound has nothing to read at first."""
    uevents = open_uevents()
    if uevents is None:
        pytest.skip("this kernel lets us bind no socket for its messages")
    try:
        uevents.read()
    finally:
        uevents.close()
