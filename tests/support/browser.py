"""A headless Chromium, controlled through Debian's chromedriver with the W3C WebDriver protocol."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import shutil
import socket
import subprocess
import tempfile
import time
from typing import TYPE_CHECKING, Any

from support.waiting import PATIENCE, eventually, pause
from zonewise_sandbox.up.ports import reserved_port

if TYPE_CHECKING:
    from collections.abc import Generator

Json = dict[str, Any]

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {"Enter": "\ue007", "ArrowDown": "\ue015", "ArrowRight": "\ue014", "Tab": "\ue004", "Escape": "\ue00c"}


class Browser:
    """One window of a browser."""

    def __init__(self, port: int, width: int, height: int) -> None:
        self._port = port
        arguments = [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
            "--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-sync",
            f"--window-size={width},{height}",
        ]  # fmt: skip
        always = {
            "browserName": "chrome",
            "goog:chromeOptions": {"binary": BROWSER, "args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        self._session = ""
        self._session = self._send("POST", "session", {"capabilities": {"alwaysMatch": always}})["sessionId"]
        self.command("Emulation.setFocusEmulationEnabled", enabled=True)
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )

    def open(self, url: str) -> None:
        """Load a URL."""
        self.send("POST", "url", {"url": url})

    def run(self, script: str, *arguments: object) -> Any:
        """Run a function body and return its result."""
        return self.send("POST", "execute/sync", {"script": script, "args": list(arguments)})

    def run_async(self, script: str, *arguments: object) -> Any:
        """Run a function body and return the value that it passes to its last argument, a callback."""
        return self.send("POST", "execute/async", {"script": script, "args": list(arguments)})

    def until(self, condition: str) -> Any:
        """Wait until an expression is true, and return its value. Raises TimeoutError."""
        started = time.monotonic()
        while not (value := self.run(f"return {condition}")):
            waited = time.monotonic() - started
            if waited > PATIENCE:
                text = self.run("return document.body.innerText")
                raise TimeoutError(f"not true: {condition}\n{self.log()}\n{text[:2000]}")
            pause(waited)
        return value

    def type(self, selector: str, text: str) -> None:
        """Type into an element; names of KEYS denote keys."""
        element = self.send("POST", "element", {"using": "css selector", "value": selector})[_ELEMENT]
        self.send("POST", f"element/{element}/value", {"text": KEYS.get(text, text)})

    def click(self, selector: str) -> None:
        element = self.send("POST", "element", {"using": "css selector", "value": selector})[_ELEMENT]
        self.send("POST", f"element/{element}/click", {})

    def command(self, name: str, **parameters: object) -> Any:
        """Run a command of the DevTools protocol and return its result."""
        return self.send("POST", "goog/cdp/execute", {"cmd": name, "params": parameters})

    def prefer(self, scheme: str) -> None:
        """Set the preferred colour scheme, "light" or "dark"."""
        self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self) -> bytes:
        """Return a PNG of the window."""
        return base64.b64decode(self.send("GET", "screenshot"))

    def log(self) -> list[str]:
        """Return errors and warnings since the last call, such as violations of the Content-Security-Policy."""
        entries: list[Json] = self.send("POST", "se/log", {"type": "browser"})
        return [f"{entry['level']}: {entry['message']}" for entry in entries if entry["level"] in {"SEVERE", "WARNING"}]

    def close(self) -> None:
        self._send("DELETE", f"session/{self._session}")

    def send(self, method: str, path: str, body: Json | None = None) -> Any:
        """Send a request of the session and return the value of its response."""
        return self._send(method, f"session/{self._session}/{path}", body)

    def _send(self, method: str, path: str, body: Json | None = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=4 * PATIENCE)
        try:
            connection.request(method, f"/{path}", None if body is None else json.dumps(body))
            value = json.loads(connection.getresponse().read())["value"]
        finally:
            connection.close()
        if isinstance(value, dict) and "error" in value:
            raise RuntimeError(f"{value['error']}: {value['message']}")
        return value  # pyright: ignore[reportUnknownVariableType]


@contextlib.contextmanager
def browser(width: int = 1400, height: int = 900) -> Generator[Browser]:
    """Start a browser. Raises RuntimeError if none is installed."""
    if BROWSER is None or DRIVER is None:
        raise RuntimeError("chromium and chromedriver are needed")
    with reserved_port() as port, tempfile.TemporaryDirectory() as home:
        driver = subprocess.Popen(
            [DRIVER, f"--port={port}", "--log-level=SEVERE"],
            env={"HOME": home, "PATH": "/usr/bin:/bin", "TZ": "UTC"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _wait(port)
            window = Browser(port, width, height)
            try:
                yield window
            finally:
                window.close()
        finally:
            driver.terminate()
            driver.wait()


def _wait(port: int) -> None:
    def listens() -> bool:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1.0).close()
            return True
        return False

    eventually(listens)
