"""One connection without its server."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

import pytest
import trustme

from support.waiting import PATIENCE
from zonewise_common.service.connection import Connection
from zonewise_common.service.tls import Certificates

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("content", [b"", b"\x16\x03"])
@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning", "error::ResourceWarning")
def test_a_reset_before_the_handshake(tmp_path: Path, content: bytes) -> None:
    """If a client resets the connection, its socket is closed, even if the client has sent data."""
    issued = trustme.CA().issue_cert("localhost")
    issued.private_key_pem.write_to_path(tmp_path / "key")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "cert")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname(), PATIENCE)
        stream, _ = listener.accept()
        client.sendall(content)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        certificates = Certificates(str(tmp_path / "cert"), str(tmp_path / "key"))
        connection = Connection(stream, 0, certificates, "127.0.0.1")
        with pytest.raises(OSError, match=r"reset|Closed"):
            connection.receive()
        connection.close()
