"""Serves the files of the page from memory. The files contain no data; the page loads its data from the read API.

A request's path is only looked up among the names of the files, so no path reaches the file system.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from zonewise_common.service.encoded_response import encode_body
from zonewise_common.service.handlers import Response, text_response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_common.service.encoded_response import EncodedBody
    from zonewise_common.service.handlers import Request

PREFIX = "/page/"
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The browser loads scripts and data only from this server; the content of a job's name never runs as code."""
SECURITY_HEADERS = (
    ("Content-Security-Policy", CONTENT_SECURITY_POLICY),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
)
CONTENT_TYPES: Mapping[str, str] = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
"""By file name extension; files with other extensions are not served."""
_INDEX = "index.html"
_BEST_LEVEL = 9


def serve_file(request: Request) -> Response:
    """Return a response with the requested file, or 404."""
    name = request.path.removeprefix(PREFIX) or _INDEX
    file = load_files().get(name)
    if file is None:
        return text_response(404, f"the page has no file {name[:80]!r}\n")
    return file.response(request, SECURITY_HEADERS)


def redirect_browser(request: Request, text: str) -> Response:
    """Return a text to programs, and redirect a browser to the page by a relative URL, since "/" may have a prefix."""
    if "text/html" not in request.accept:
        return text_response(200, text)
    location = PREFIX.removeprefix("/")
    return Response(303, "text/plain; charset=utf-8", f"see {location}\n".encode(), (("Location", location),))


@cache
def load_files() -> dict[str, EncodedBody]:
    """Return the files by name."""
    loaded: dict[str, EncodedBody] = {}
    for file in files(__package__ or "").joinpath("assets").iterdir():
        content_type = CONTENT_TYPES.get(file.name.rpartition(".")[2])
        if content_type is not None:
            loaded[file.name] = encode_body(content_type, file.read_bytes(), _BEST_LEVEL)
    return loaded
