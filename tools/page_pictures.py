"""Generates the pictures in docs/guides/page.md with a headless Chromium: `python -m tools.page_pictures`.

The cluster and its clock are always the same, and times are in UTC, so pictures change only with the page.
"""

from __future__ import annotations

import sys
from pathlib import Path

PROJECT = Path(__file__).parents[1]
sys.path.insert(0, str(PROJECT / "tests"))

from support.browser import browser  # noqa: E402
from support.page_cluster import PageCluster  # noqa: E402
from zonewise_common.service.http_server import HttpServer  # noqa: E402

IMAGES = PROJECT / "docs" / "guides" / "images"
NOW = 1_767_260_000.0
"""Seconds since 1970: 2026-01-01T09:33:20Z."""
MAX_SIZE = 150 << 10
"""Maximum bytes of a picture."""


def main() -> int:
    """Write the pictures; return 1 if one is too large."""
    cluster = PageCluster(256, 80, 300, NOW - 40)
    cluster.step(20.0)
    cluster.plans = False
    cluster.step(20.0)
    server = HttpServer("127.0.0.1:0", cluster.handler())
    server.start()
    state = cluster.controller.feed.state
    reserved = min(state.reservations_by_start, key=lambda each: -len(each.waits_for)).workload.key
    node = max((node for node in cluster.nodes if node.kind.devices), key=lambda node: len(node.held)).name
    pictures = {
        "page-cluster": ("light", f"#/cluster?node={node}"),
        "page-cluster-dark": ("dark", f"#/cluster?node={node}"),
        "page-queues": ("light", "#/queues"),
        "page-plan-dark": ("dark", "#/plan"),
        "page-job": ("light", f"#/job/{reserved}"),
    }
    IMAGES.mkdir(exist_ok=True)
    large = 0
    with browser(1280, 800) as window:
        for name, (scheme, address) in pictures.items():
            window.prefer(scheme)
            window.open("about:blank")
            window.open(f"http://127.0.0.1:{server.port}/page/{address}")
            window.until("document.querySelector('#connection').dataset.state == 'live'")
            if "#/job" in address:
                window.until("document.querySelector('.history')")
            window.run_async("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
            picture = window.screenshot()
            (IMAGES / f"{name}.png").write_bytes(picture)
            print(f"{name}.png {len(picture) >> 10} KiB")
            large += len(picture) > MAX_SIZE
    server.close()
    return min(large, 1)


if __name__ == "__main__":
    sys.exit(main())
