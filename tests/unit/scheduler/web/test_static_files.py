"""The files of the web page: what is served to browsers, and the content security policy."""

from __future__ import annotations

import gzip
import re

import pytest

from zonewise_common.service.handlers import Request
from zonewise_scheduler.web.static_files import CONTENT_SECURITY_POLICY, load_files, redirect_browser, serve_file


def get(path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    request = Request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    response = serve_file(request)
    return response.status, {"Content-Type": response.content_type, **dict(response.headers)}, response.body


@pytest.mark.parametrize(
    ("path", "content_type"),
    [
        ("/page/", "text/html; charset=utf-8"),
        ("/page/index.html", "text/html; charset=utf-8"),
        ("/page/page.js", "text/javascript; charset=utf-8"),
        ("/page/page.css", "text/css; charset=utf-8"),
        ("/page/icon.svg", "image/svg+xml"),
    ],
)
def test_each_file_has_its_type_and_the_policy(path: str, content_type: str) -> None:
    status, headers, body = get(path)
    assert (status, headers["Content-Type"], bool(body)) == (200, content_type, True)
    assert headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_the_policy_forbids_other_origins_and_inline_code() -> None:
    parts = (part.strip().partition(" ") for part in CONTENT_SECURITY_POLICY.split(";"))
    directives = {name: value for name, _, value in parts}
    assert directives["default-src"] == "'none'"
    assert directives["script-src"] == directives["style-src"] == directives["connect-src"] == "'self'"
    assert "unsafe" not in CONTENT_SECURITY_POLICY


@pytest.mark.parametrize(
    "path",
    [
        "/page/../static_files.py",
        "/page/..%2fstatic_files.py",
        "/page//etc/passwd",
        "/page/assets/page.js",
        "/page/__init__.py",
        "/page/page.js/",
        "/page/.",
    ],
)
def test_no_path_leaves_the_files(path: str) -> None:
    assert get(path)[0] == 404


def test_files_are_compressed_and_cached() -> None:
    _, headers, body = get("/page/page.js", accept_encoding="gzip")
    assert gzip.decompress(body) == get("/page/page.js")[2]
    assert get("/page/page.js", if_none_match=headers["ETag"])[0] == 304


def test_the_files_refer_only_to_each_other() -> None:
    """Imports and references are files of the page. There are no other addresses, inline scripts or inline styles."""
    files = {name: file.body.decode() for name, file in load_files().items()}
    for name, text in files.items():
        references = re.findall(r'from "\./([^"]+)"', text)
        if name.endswith(".html"):
            references += re.findall(r'(?:src|href)="([^"#][^"]*)"', text)
            assert not re.search(r"<script(?![^>]*src=)|<style|\son\w+=|\sstyle=", text)
        assert set(references) <= files.keys(), name
        addresses = set(re.findall(r"https?://[^\s\"'`)]+", text))
        assert addresses <= {"http://www.w3.org/2000/svg"}, name
        assert not re.search(r"\binnerHTML\b|\bouterHTML\b|\beval\(|insertAdjacentHTML|document\.write", text), name


def test_browsers_are_redirected_and_programs_get_the_text() -> None:
    browser = redirect_browser(Request("GET", "/", accept="text/html,application/xhtml+xml,*/*;q=0.8"), "text")
    assert (browser.status, dict(browser.headers)["Location"]) == (303, "page/")
    assert redirect_browser(Request("GET", "/", accept="*/*"), "text").body == b"text"


def _colors(block: str) -> dict[str, str]:
    return dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6})", block))


def _luminance(color: str) -> float:
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(a: str, b: str) -> float:
    light, dark = sorted((_luminance(a), _luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_colors_have_the_contrast_of_wcag_aa(scheme: int) -> None:
    """Text has a contrast of at least 4.5:1 (success criterion 1.4.3), marks at least 3:1 (1.4.11)."""
    blocks = re.findall(r":root \{(.*?)\}", load_files()["page.css"].body.decode(), re.DOTALL)
    colors = _colors(blocks[scheme])
    for text in ("text", "muted", "link", "good", "warn", "bad"):
        for ground in ("ground", "surface", "raised", "free"):
            assert _contrast(colors[text], colors[ground]) >= 4.5, (text, ground)
    for bar in ("run", "stop"):
        assert _contrast(colors["run-text"], colors[bar]) >= 4.5, bar
    for mark in ("run", "reserve", "forecast", "stop", "borrow", "used-3", "used-4", "line-strong", "focus"):
        assert _contrast(colors[mark], colors["surface"]) >= 3.0, mark
