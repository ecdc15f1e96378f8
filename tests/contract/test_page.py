"""The page in a real browser: its content, updates from the server, and the keyboard."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
import time
import urllib.request
from typing import TYPE_CHECKING

import pytest

from support.browser import BROWSER, DRIVER, Browser, browser
from support.page_cluster import PageCluster
from support.waiting_messages import MESSAGES
from zonewise_common.service.authorizer import Authorizer
from zonewise_common.service.http_server import HttpServer
from zonewise_sandbox.apiserver import ApiServer
from zonewise_sandbox.up.ports import reserved_port
from zonewise_scheduler.client.cluster.page_server import PageServer
from zonewise_scheduler.client.cluster.read_api import ReadApi

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from zonewise_common.kube.resources import Resource

pytestmark = pytest.mark.skipif(BROWSER is None or DRIVER is None, reason="chromium and chromium-driver are absent")
TOKEN = "good-token"  # noqa: S105 -- of this test


class Reviews:
    """An API server for which TOKEN is valid."""

    def create(self, resource: Resource, obj: dict[str, Any]) -> dict[str, Any]:
        if "token" in obj["spec"]:
            return {"status": {"authenticated": obj["spec"]["token"] == TOKEN, "user": {"username": "u"}}}
        return {"status": {"allowed": True}}


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def cluster() -> PageCluster:
    built = PageCluster(40, 12, 30, time.time())
    built.plans = False
    return built


@pytest.fixture
def url(cluster: PageCluster) -> Iterator[str]:
    server = HttpServer("127.0.0.1:0", cluster.handler())
    server.start()
    yield f"http://127.0.0.1:{server.port}"
    server.close()


def show(window: Browser, url: str, address: str = "#/cluster") -> None:
    """Open a view, and wait until it is drawn: the page is connected a frame before."""
    window.open("about:blank")
    window.open(f"{url}/page/{address}")
    window.until("document.querySelector('#connection').dataset.state == 'live'")
    window.until("performance.getEntriesByName('zonewise-first-view').length")


def text(window: Browser) -> str:
    return window.run("return document.querySelector('main').innerText")


def test_each_view_shows_the_cluster_without_an_error(window: Browser, cluster: PageCluster, url: str) -> None:
    window.log()
    show(window, url)
    assert window.run("return zonewise.store.nodes.size") == len(cluster.nodes)
    drawn = "return new Set(new Uint32Array(document.querySelector('canvas').getContext('2d')"
    drawn += ".getImageData(0, 0, 400, 200).data.buffer)).size"
    assert window.run(drawn) > 3
    state = cluster.controller.feed.state
    running, waiting = next(iter(state.running)), next(iter(state.pending))
    node = next(node for node in cluster.nodes if node.held)
    for address, parts in {
        "#/queues": ["company", "research", "llm", "pending"],
        "#/plan": ["jobs run"],
        "#/jobs": ["Pending", "Admitted", running.partition("/")[2]],
        f"#/job/{running}": ["Runs on", "History", "Ends at the latest"],
        f"#/job/{waiting}": ["Why it waits", "Submitted"],
        f"#/node/{node.name}": ["Zones", "Runs", node.state.kind.policies.topology and "Ready"],
        "#/cluster?show=table": ["Nodes: 40 rows"],
    }.items():
        show(window, url, address)
        for part in parts:
            window.until(f"document.querySelector('main').innerText.includes({json.dumps(part)})")
    assert window.log() == []


def test_quotas_are_shown_in_their_units_and_the_largest_number_as_unlimited(window: Browser, url: str) -> None:
    show(window, url, "#/queues")
    script = "const show = arguments[arguments.length - 1]; import('./format.js').then(({usage, quantity}) => show("
    script += "[['memory', '1Gi', '4Ti'], ['cpu', '2', '9223372036854775807m'], ['pods', '1', '9223372036854775807']]"
    script += ".map(([name, used, quota]) => usage(name, quantity(used), quantity(quota)))))"
    assert window.run_async(script) == ["1 GiB of 4 TiB", "2, unlimited", "1, unlimited"]


def test_the_zones_of_a_node_fit_beside_the_map(window: Browser, cluster: PageCluster, url: str) -> None:
    node = next(node for node in cluster.nodes if node.held)
    show(window, url, f"#/cluster?node={node.name}")
    window.until("document.querySelector('.panel table')")
    widths = "[...document.querySelectorAll('.panel .scroll')].map((each) => each.scrollWidth - each.clientWidth)"
    assert window.run(f"return Math.max(...{widths})") == 0


def test_changes_appear_without_a_reload(window: Browser, cluster: PageCluster, url: str) -> None:
    show(window, url, "#/jobs")
    before = window.run("return zonewise.store.version")
    jobs = set(cluster.controller.feed.state.running)
    cluster.churn(2)
    cluster.step(1.0)
    window.until(f"zonewise.store.version != {json.dumps(before)}")
    state = cluster.controller.feed.state
    expected = {*state.running, *state.pending, *state.inadmissible}
    window.until(f"zonewise.store.workloads.size == {len(expected)}")
    assert set(window.run("return [...zonewise.store.workloads.keys()]")) == expected
    assert jobs - expected, "no job has ended"


def test_times_follow_the_controllers_clock_even_without_changes(window: Browser) -> None:
    """The rows of a quiet cluster are hours old, and its clock differs from that of the browser."""
    quiet = PageCluster(4, 2, 2, time.time() - 86400.0)
    quiet.plans = False
    server = HttpServer("127.0.0.1:0", quiet.handler())
    server.start()
    with contextlib.closing(server), contextlib.closing(ReadApi.at(f"http://127.0.0.1:{server.port}")) as api:
        before = api.get("/api/v1/cluster")
        quiet.now += 3 * 3600.0
        assert api.get("/api/v1/cluster")["at"] == before["at"]
        with PageServer(api, 0) as page:
            window.open("about:blank")
            window.open(page.url)
            window.until(f"Math.abs(zonewise.store.now - {quiet.now}) < 600")
            window.open(f"{page.url.partition('#')[0]}#/jobs")
            window.until("document.querySelector('main').innerText.includes('3 h')")


def test_a_malformed_address_is_shown_unchanged(window: Browser, url: str) -> None:
    window.log()
    show(window, url, "#/job/%")
    window.until("document.querySelector('main h1')")
    assert "Loading" not in text(window)
    assert [line for line in window.log() if "404" not in line] == []


@pytest.mark.parametrize(
    ("first", "seconds", "requests"),
    [
        ({"explanation": {}}, 20, 1),
        ({"explanation": {}}, 31, 2),  # the job waits, so its explanation changes with other jobs
        ({"placement": {}}, 31, 1),
        ({"status": 503}, 6, 2),
        ({"status": 404}, 31, 1),
    ],
)
def test_an_open_job_shows_its_latest_explanation(
    window: Browser, url: str, first: dict[str, Any], seconds: int, requests: int
) -> None:
    """The view repeats its request if the response may have changed or failed; `first` is the first response."""
    window.open(f"{url}/page/")
    count = """
        const { JobView } = await import(`${location.origin}/page/job_view.js`);
        const shown = JobView.prototype.show, clock = performance.now;
        let now = 0, requests = 0;
        JobView.prototype.show = () => {};
        performance.now = () => now;
        const fetch = async () => {
            requests += 1;
            if (requests === 1 && first.status) throw Object.assign(new Error(), first);
            return { json: async () => first };
        };
        const view = new JobView({ fetch }, document.createElement("div"), ["ns", "w"]);
        for (; now <= 1000 * seconds; now += 1000) {
            view.tick();
            for (let i = 0; i < 9; i += 1) await null; // load() waits for three answers
        }
        [JobView.prototype.show, performance.now] = [shown, clock];
        done(requests);
    """
    assert window.run_async(f"(async (first, seconds, done) => {{{count}}})(...arguments)", first, seconds) == requests


def test_only_changed_rows_are_built(window: Browser, url: str) -> None:
    """An update builds only the rows of changed jobs, and all rows when the times that they show change."""
    show(window, url, "#/jobs")
    window.run("""
        const [now, create] = [Date.now(), document.createElement.bind(document)];
        let hours = 0, cells = 0;
        Date.now = () => now + 3600000 * hours;
        document.createElement = (tag) => { cells += tag === "td"; return create(tag); };
        window.update = (later = 0) => {
            [hours, cells] = [hours + later, 0];
            zonewise.store.dispatchEvent(new CustomEvent("change", { detail: new Map([["workloads", new Set()]]) }));
            return cells;
        };
        window.update();
    """)
    jobs, columns = window.run(
        "return [zonewise.store.workloads.size, document.querySelectorAll('th[scope=col]').length]"
    )
    assert window.run("return window.update()") == 0
    changed = """
        const rows = zonewise.store.workloads;
        const [key, row] = [...rows].at(-1);
        rows.set(key, {...row, priority: 4321});
        return [window.update(), document.querySelectorAll("tbody tr").length, document.querySelector("main").innerText]
    """
    cells, shown, main = window.run(changed)
    assert (cells, shown) == (columns - 1, jobs)
    assert "4321" in main
    assert window.run("return window.update(1)") == jobs * (columns - 1)
    assert "1 h" in text(window)


def test_a_lost_connection_is_restored_automatically(window: Browser, cluster: PageCluster) -> None:
    with reserved_port() as port:
        server = HttpServer(f"127.0.0.1:{port}", cluster.handler())
        server.start()
        show(window, f"http://127.0.0.1:{port}")
        server.close()
        window.until("document.querySelector('#connection').dataset.state == 'lost'")
        cluster.churn(1)
        cluster.step(1.0)
        server = HttpServer(f"127.0.0.1:{port}", cluster.handler())
        server.start()
        try:
            window.until("document.querySelector('#connection').dataset.state == 'live'")
            state = cluster.controller.feed.state
            count = len({*state.running, *state.pending, *state.inadmissible})
            window.until(f"zonewise.store.workloads.size == {count}")
        finally:
            server.close()


class _HoldsEvents(http.server.BaseHTTPRequestHandler):
    """A proxy with a path of its own that never passes on an event."""

    upstream = ""
    is_over = threading.Event()

    def do_GET(self) -> None:
        path = self.path.removeprefix("/prefix")
        if path.endswith("/events"):
            self.is_over.wait()
            return
        with urllib.request.urlopen(self.upstream + path) as response:  # noqa: S310 -- a URL of this test
            body, headers = response.read(), response.headers
        self.send_response(200)
        for name in ("Content-Type", "Content-Encoding"):
            if name in headers:
                self.send_header(name, headers[name])
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the name of the standard library
        """Print nothing."""


def test_the_page_is_current_behind_a_proxy_that_holds_events_back(
    window: Browser, cluster: PageCluster, url: str
) -> None:
    handler = type("Handler", (_HoldsEvents,), {"upstream": url, "is_over": threading.Event()})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as proxy:
        threading.Thread(target=proxy.serve_forever).start()
        try:
            window.open("about:blank")
            window.open(f"http://127.0.0.1:{proxy.server_port}/prefix/page/")
            window.until("zonewise.store.version")
            window.run("zonewise.store.silence = 10; dispatchEvent(new Event('pagehide'))")
            cluster.churn(1)
            cluster.step(1.0)
            state = cluster.controller.feed.state
            expected = sorted({*state.running, *state.pending, *state.inadmissible})
            shown = "JSON.stringify([...zonewise.store.workloads.keys()].sort())"
            window.until(f"{shown} == JSON.stringify({json.dumps(expected)})")
            window.until("zonewise.store.problem == 'no event arrived: a proxy may hold them back'")
            window.until("document.querySelector('#connection').dataset.state == 'lost'")
        finally:
            window.open("about:blank")
            handler.is_over.set()
            proxy.shutdown()


def test_the_keyboard_suffices(window: Browser, url: str) -> None:
    """Arrow keys select a node, which is described in words and can be opened; the search finds a job."""
    show(window, url)
    window.run("document.querySelector('canvas').focus()")
    window.type("canvas", "ArrowRight")
    first = window.run("return document.querySelector('aside').innerText")
    window.type("canvas", "ArrowDown")
    assert window.run("return document.querySelector('aside').innerText") != first
    window.type("canvas", "Enter")
    window.until("location.hash.startsWith('#/node/')")
    job = window.run("return zonewise.store.workloads.values().next().value.job")
    window.type("#query", job)
    window.until("document.querySelectorAll('#matches [role=option]').length > 0")
    window.type("#query", "Enter")
    window.until("location.hash.startsWith('#/job/')")
    assert job in text(window)


def test_a_screen_reader_has_landmarks_names_and_a_table(window: Browser, url: str) -> None:
    show(window, url)
    nodes = window.command("Accessibility.getFullAXTree")["nodes"]
    known = {
        (node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if not node.get("ignored")
    }
    assert {"banner", "navigation", "main", "search", "complementary"} <= {role for role, _ in known}
    unnamed = {
        role for role, name in known if role in {"button", "link", "combobox", "textbox", "application"} and not name
    }
    assert unnamed == set()
    assert ("application", "Nodes of the cluster") in known
    show(window, url, "#/cluster?show=table")
    assert window.run("return [...document.querySelectorAll('th')].every((cell) => cell.scope)")


def test_a_token_is_requested_and_only_stored_in_the_tab(window: Browser, cluster: PageCluster) -> None:
    server = HttpServer("127.0.0.1:0", cluster.handler(), authorizer=Authorizer(Reviews()))
    server.start()
    try:
        window.open("about:blank")
        window.open(f"http://127.0.0.1:{server.port}/page/")
        window.until("document.querySelector('#token')")
        window.type("#token", "bad-token")
        window.type("#token", "Enter")
        window.until("document.querySelector('[role=alert]')")
        assert "the token is not valid" in text(window)
        window.type("#token", TOKEN)
        window.type("#token", "Enter")
        window.until("document.querySelector('#connection').dataset.state == 'live'")
        assert window.run("return [localStorage.length, document.cookie, location.search]") == [0, "", ""]
    finally:
        server.close()


def test_the_page_behind_a_prefix(window: Browser, cluster: PageCluster) -> None:
    """The API server's proxy uses the header Authorization itself; the proxy in memory does the same."""
    with contextlib.ExitStack() as stack:
        server = HttpServer("127.0.0.1:0", cluster.handler(), authorizer=Authorizer(Reviews()))
        server.start()
        stack.callback(server.close)

        def address(_namespace: str, _name: str, _port: str) -> tuple[str, int]:
            return "127.0.0.1", server.port

        api_server = stack.enter_context(ApiServer(services=address))
        window.open("about:blank")
        window.log()
        window.open(f"{api_server.url}/api/v1/namespaces/zonewise/services/zonewise-controller:metrics/proxy/")
        window.until("document.querySelector('#token')")
        assert window.run("return location.pathname").endswith("/proxy/page/")
        window.type("#token", TOKEN)
        window.type("#token", "Enter")
        window.until("document.querySelector('#connection').dataset.state == 'live'")
        see_a_change(window, cluster)
        refused = [line for line in window.log() if "401" not in line]
        assert refused == []


def test_the_page_of_the_command(window: Browser, cluster: PageCluster, url: str) -> None:
    """The printed address is sufficient, and its token does not get into the history of the browser."""
    with contextlib.closing(ReadApi.at(url)) as api, PageServer(api, 0) as server:
        window.open("about:blank")
        window.log()
        window.open(server.url)
        window.until("document.querySelector('#connection').dataset.state == 'live'")
        assert window.run("return location.href") == server.url.partition("#")[0]
        assert window.run("return [localStorage.length, document.cookie]") == [0, ""]
        see_a_change(window, cluster)
        window.open(f"{server.url.partition('#')[0]}#/queues")
        window.until("document.querySelector('main').innerText.includes('research')")
        assert window.log() == []
        window.run("sessionStorage.clear()")
        window.run("location.reload()")
        window.until("document.querySelector('[role=alert]')")
        assert "open the complete address that `zonewise page` printed" in text(window)
        window.open(server.url)  # in the same tab: only the fragment differs, so the browser loads nothing
        window.until("document.querySelector('#connection').dataset.state == 'live'")


def see_a_change(window: Browser, cluster: PageCluster) -> None:
    before = window.run("return zonewise.store.version")
    cluster.churn(2)
    cluster.step(1.0)
    window.until(f"zonewise.store.version != {json.dumps(before)}")


def test_no_text_crosses_the_edge_of_its_card(window: Browser, cluster: PageCluster, url: str) -> None:
    """The times in the history of a job are as long as possible: they are of another day, and hours away."""
    cluster.now += 86400.0
    running = next(iter(cluster.controller.feed.state.running))
    show(window, url, f"#/job/{running}")
    window.until("document.querySelector('.history time')")
    crossing = """
        return [...document.querySelectorAll(".card *")].filter((each) => each.getBoundingClientRect().right
            > each.closest(".card").getBoundingClientRect().right).map((each) => each.outerHTML)
    """
    assert window.run(crossing) == []


def test_a_narrow_window_needs_no_horizontal_scrolling(window: Browser, cluster: PageCluster, url: str) -> None:
    """Times and names wrap. A list shows only its most important columns, so it does not scroll either."""
    state = cluster.controller.feed.state
    running, waiting = next(iter(state.running)), next(iter(state.pending))
    window.command("Emulation.setDeviceMetricsOverride", width=320, height=740, deviceScaleFactor=1, mobile=False)
    try:
        for address in (
            "#/cluster",
            "#/cluster?show=table",
            "#/queues",
            "#/plan",
            "#/jobs",
            f"#/job/{running}",
            f"#/job/{waiting}",
        ):
            show(window, url, address)
            if "#/job/" in address:
                window.until("document.querySelector('.history')")
            root = "document.documentElement"
            assert window.run(f"return [{root}.scrollWidth <= {root}.clientWidth, location.hash]") == [True, address]
            if address == "#/plan":
                window.run("[...document.querySelectorAll('button')].find((each) => each.innerText == 'Table').click()")
            tables = "[...document.querySelectorAll('.scroll:has(caption)')]"
            wide = window.run(f"return {tables}.filter((each) => each.scrollWidth > each.clientWidth).length")
            assert (address, wide) == (address, 0)
    finally:
        window.command("Emulation.setDeviceMetricsOverride", width=1400, height=900, deviceScaleFactor=1, mobile=False)


def test_a_node_shows_when_its_jobs_end(window: Browser, cluster: PageCluster, url: str) -> None:
    node = next(node for node in cluster.nodes if node.held)
    show(window, url, f"#/node/{node.name}")
    header = "Ends at the latest"
    window.until(f"document.querySelector('main').innerText.includes({json.dumps(header)})")
    rows = window.run("return [...document.querySelectorAll('table')].at(-1).querySelectorAll('tbody tr').length")
    ends = "return [...document.querySelectorAll('table')].at(-1).querySelectorAll('tbody td:last-child')"
    assert window.run(f"{ends}.length") == rows > 0
    assert all("in " in end or "unknown" in end for end in window.run(f"{ends.replace('return ', 'return [...')}]"
        ".map((cell) => cell.textContent)"))  # fmt: skip


def test_the_end_of_a_job_that_overruns_is_unknown(window: Browser, url: str) -> None:
    show(window, url)
    ends = """
        const { endOf } = await import(`${location.origin}/page/parts.js`);
        done([100, 50, null].map((deadline) => endOf({ deadline }, 60).textContent));
    """
    later, passed, undeclared = window.run_async(f"(async (done) => {{{ends}}})(...arguments)")
    assert "in 40 s" in later
    assert passed == "unknown: it runs longer than it declares"
    assert undeclared == "unknown: it declares no walltime"


@pytest.mark.parametrize(("nodes", "is_named"), [(4, True), (256, False)])
def test_the_tiles_of_a_small_cluster_are_large_and_named(window: Browser, nodes: int, is_named: bool) -> None:
    built = PageCluster(nodes, 1, 0, time.time())
    server = HttpServer("127.0.0.1:0", built.handler())
    server.start()
    texts = """
        const fillText = CanvasRenderingContext2D.prototype.fillText, drawn = [];
        CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
            drawn.push(text);
            fillText.call(this, text, ...rest);
        };
        dispatchEvent(new Event("resize"));
        document.querySelector("select").dispatchEvent(new Event("change"));
        CanvasRenderingContext2D.prototype.fillText = fillText;
        return drawn;
    """
    with contextlib.closing(server):
        show(window, f"http://127.0.0.1:{server.port}")
        names = {node.name for node in built.nodes}
        drawn = set(window.run(texts))
    assert (names <= drawn) is is_named
    assert bool(names & drawn) is is_named


def test_a_job_starts_by_its_reservation_at_the_latest(window: Browser, url: str) -> None:
    """A reservation holds, so a forecast does not end after it; the command line shows the same."""
    show(window, url)
    times = """
        const { JobView } = await import(`${location.origin}/page/job_view.js`);
        const pending = { startedAt: null, createdAt: 0, earliest: 70, likely: 80, latest: 140 };
        const shown = (reservedStart) => JobView.prototype.times({ ...pending, reservedStart }, 60).textContent;
        done([100, null, 65].map(shown));
    """
    reserved, unreserved, overtaken = window.run_async(f"(async (done) => {{{times}}})(...arguments)")
    assert reserved.count("in 40 s") == 2
    assert overtaken.count("in 5 s") == 4
    assert "in 1 min" in unreserved
    assert "in 1 min" not in reserved


def test_the_clauses_of_a_message_are_those_of_the_command_line(window: Browser, url: str) -> None:
    show(window, url)
    clauses = """
        const { messageClauses } = await import(`${location.origin}/page/job_view.js`);
        done(messages.map(messageClauses));
    """
    messages = ["; ".join(each) for each in MESSAGES]
    assert window.run_async(f"(async (messages, done) => {{{clauses}}})(...arguments)", messages) == MESSAGES


def test_times_of_a_job_name_their_zone(window: Browser, cluster: PageCluster, url: str) -> None:
    """The sentences of the controller are in UTC, and the other times in the browser's zone."""
    window.command("Emulation.setTimezoneOverride", timezoneId="America/New_York")
    try:
        show(window, url, f"#/job/{next(iter(cluster.controller.feed.state.pending))}")
        window.until("/Times in (EST|EDT|GMT-[45])/.test(document.querySelector('main').innerText)")
    finally:
        window.command("Emulation.setTimezoneOverride", timezoneId="")


def test_markup_in_a_name_is_text(window: Browser, cluster: PageCluster, url: str) -> None:
    """Users choose names, and also the address of a view."""
    show(window, url, "#/job/ns/%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E")
    window.until("document.querySelector('main').innerText.includes('<img src=x')")
    assert window.run("return document.querySelectorAll('main img').length") == 0


def test_a_printed_page_has_no_controls(window: Browser, url: str) -> None:
    controls = "[...document.querySelectorAll('button:not(th *), select, input, nav')]"
    visible = f"{controls}.filter((each) => each.checkVisibility()).map((each) => each.outerHTML)"
    window.command("Emulation.setEmulatedMedia", media="print")
    try:
        for address in ("#/queues", "#/cluster", "#/plan", "#/jobs"):
            show(window, url, address)
            assert window.run(f"return {visible}") == []
    finally:
        window.command("Emulation.setEmulatedMedia", media="")


@pytest.mark.long
def test_five_thousand_nodes_and_ten_thousand_jobs(window: Browser) -> None:
    """The test covers only the function; benchmarks/page.py measures the times."""
    cluster = PageCluster(5000, 1400, 8800, time.time())
    cluster.plans = False
    server = HttpServer("127.0.0.1:0", cluster.handler())
    server.start()
    try:
        show(window, f"http://127.0.0.1:{server.port}")
        assert window.run("return [zonewise.store.nodes.size, zonewise.store.workloads.size > 9500]") == [5000, True]
        before = window.run("return zonewise.store.version")
        cluster.churn(20)
        cluster.step(1.0)
        window.until(f"zonewise.store.version != {json.dumps(before)}")
    finally:
        server.close()
