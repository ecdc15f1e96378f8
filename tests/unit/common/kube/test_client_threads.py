"""The first use of a type by several threads at once."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import sys, threading
import msgspec
from zonewise_common.kube import client

sys.setswitchinterval(1e-6)

def new_type(number):
    fields = [(f"a{index}", dict[str, list[int]], msgspec.field(default_factory=dict)) for index in range(40)]
    inner = msgspec.defstruct(f"Inner{number}", fields)
    return msgspec.defstruct(f"Outer{number}", [("metadata", inner), ("items", list[inner] | None, None)])

def decode(into, barrier):
    barrier.wait()
    client._decode(b'{"metadata": {"a1": {"x": [1]}}, "items": [{}]}', into)

for number in range(200):
    barrier = threading.Barrier(4)
    into = new_type(number)
    threads = [threading.Thread(target=decode, args=(into, barrier)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""
"""Without the client's lock, this program crashes in every run after a few types."""


def test_threads_that_decode_a_new_type() -> None:
    """Msgspec crashes the process if two threads build decoders of one struct at once."""
    result = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
