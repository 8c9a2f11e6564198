"""A real browser, Debian's chromium, driven over its DevTools protocol, and cut off from every network."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Self

import requests
import websocket

from tests.kit.requirements import require

PATIENCE = 60
"""Seconds until a test gives up on a browser, or on what a page is to show."""
_FLAGS = (
    *("--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--remote-allow-origins=*"),
    *("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost", "--remote-debugging-port=0"),
)
_KEYS = {"Enter": 13, "Escape": 27, "PageUp": 33, "PageDown": 34, "End": 35, "Home": 36, "ArrowUp": 38, "ArrowDown": 40}


class Browser:
    """A browser with one page, as a context manager. ``requested`` are the addresses that pages asked for, and
    ``complaints`` what they wrote to the console or threw.
    """

    def __init__(self, width: int = 1280, height: int = 800) -> None:
        self._program = require("chromium")
        self._size = f"--window-size={width},{height}"
        self._number = 0
        self.requested: list[str] = []
        self.complaints: list[str] = []

    def __enter__(self) -> Self:
        self._directory = tempfile.TemporaryDirectory(prefix="opmkit-browser-", ignore_cleanup_errors=True)
        profile = Path(self._directory.name)
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        argv = [self._program, *_FLAGS, *sandbox, self._size, f"--user-data-dir={profile}", "about:blank"]
        environment = {**os.environ, "HOME": str(profile)}
        self._process = subprocess.Popen(
            argv, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            self._connect(profile / "DevToolsActivePort")
        except BaseException:
            self.__exit__()
            raise
        return self

    def _connect(self, told: Path) -> None:
        until = time.monotonic() + PATIENCE
        while not (told.exists() and told.read_text().strip()):
            assert self._process.poll() is None, "the browser does not start"
            assert time.monotonic() < until, "the browser tells no port"
            time.sleep(0.05)
        port = told.read_text().split()[0]
        session = requests.Session()
        session.trust_env = False
        pages = session.get(f"http://127.0.0.1:{port}/json/list", timeout=PATIENCE).json()
        address = next(page["webSocketDebuggerUrl"] for page in pages if page["type"] == "page")
        self._socket = websocket.create_connection(address, timeout=PATIENCE, http_no_proxy=["127.0.0.1"])
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def __exit__(self, *_: object) -> None:
        if hasattr(self, "_socket"):
            self._socket.close()
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._directory.cleanup()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol, and give its result."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == self._number:
                assert "error" not in message, message["error"]
                result: dict[str, Any] = message["result"]
                return result
            self._note(message.get("method", ""), message.get("params", {}))

    def _note(self, method: str, told: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requested.append(told["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(str(told["exceptionDetails"]))
        elif method == "Log.entryAdded":
            self.complaints.append(told["entry"]["text"])

    def open(self, page: Path, fragment: str = "") -> None:
        """Load the file, and wait until its script has run."""
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=page.as_uri() + fragment)
        self.until("document.readyState === 'complete' && location.protocol === 'file:'")

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        told = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def until(self, condition: str) -> None:
        """Wait for a JavaScript condition."""
        until = time.monotonic() + PATIENCE
        while not self.evaluate(condition):
            assert time.monotonic() < until, f"never: {condition}"
            time.sleep(0.02)

    def text(self, selector: str) -> str:
        """The text that an element shows."""
        shown: str = self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")
        return shown

    def press(self, key: str) -> None:
        """Press a key, by its name or its letter."""
        text = {} if key in _KEYS else {"text": key}
        code = _KEYS.get(key, ord(key.upper()[0]))
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def type(self, text: str) -> None:
        """Type text into what has the focus."""
        self.call("Input.insertText", text=text)

    def click(self, selector: str) -> None:
        """Click in the middle of an element."""
        box = self.evaluate(
            f"(() => {{ const box = document.querySelector({json.dumps(selector)}).getBoundingClientRect();"
            " return [box.left + Math.min(box.width, 100) / 2, box.top + box.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def dark(self, *, on: bool = True) -> None:
        """Let the system have dark colours."""
        value = "dark" if on else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": value}])

    def screenshot(self, path: Path) -> None:
        """Save what there is to see, as PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
