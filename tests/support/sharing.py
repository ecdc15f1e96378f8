"""Servers that the tests of several files share: the first test starts one, and it ends once the next file needs none.

For pytest, each test file that imports a fixture has its own copy of it. So the fixture only asks for the server:

    @pytest.fixture(scope="module")
    def real_server() -> RealServer:
        return shared("real_server", real_apiserver)

tests/conftest.py makes the files that import such a fixture neighbours, and calls end_unused() after each test.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

Server = TypeVar("Server")

SHARED_FIXTURES = ("real_cluster", "real_job_server", "real_server", "real_unscheduled_cluster")
"""The names of the fixtures that return shared servers."""
_running: dict[str, tuple[object, contextlib.ExitStack]] = {}


def shared(fixture: str, start: Callable[[], AbstractContextManager[Server]]) -> Server:
    """Return the server of a fixture, which is started unless it runs in this process."""
    assert fixture in SHARED_FIXTURES
    if fixture not in _running:
        with contextlib.ExitStack() as stack:
            server = stack.enter_context(start())
            _running[fixture] = server, stack.pop_all()
    return cast("Server", _running[fixture][0])


def end_unused(next_module: Any) -> None:
    """End the servers that the next test's module does not import; None: there is no next test."""
    for fixture in [name for name in _running if not hasattr(next_module, name)]:
        _, stack = _running.pop(fixture)
        stack.close()
