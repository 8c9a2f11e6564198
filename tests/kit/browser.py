"""Headless chromium without network access, driven over the DevTools protocol."""

from __future__ import annotations

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
"""Seconds until waiting for the browser or a page times out."""
_FLAGS = (
    *("--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--remote-allow-origins=*"),
    *("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost", "--remote-debugging-port=0"),
)
_KEYS = {
    "Enter": 13,
    "Escape": 27,
    "Tab": 9,
    "PageUp": 33,
    "PageDown": 34,
    "End": 35,
    "Home": 36,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
}


class Browser:
    """A browser with one page, as a context manager.

    ``requested`` lists the URLs that pages requested, ``errors`` their log entries and uncaught exceptions.
    """

    def __init__(self, width: int = 1280, height: int = 800) -> None:
        self._program = require("chromium")
        self._size = f"--window-size={width},{height}"
        self._number = 0
        self.requested: list[str] = []
        self.errors: list[str] = []

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

    def _connect(self, port_file: Path) -> None:
        deadline = time.monotonic() + PATIENCE
        while not (port_file.exists() and port_file.read_text().strip()):
            assert self._process.poll() is None, "the browser did not start"
            assert time.monotonic() < deadline, "the browser did not write its port"
            time.sleep(0.05)
        port = port_file.read_text().split()[0]
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
        """Call a method of the protocol and return its result."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == self._number:
                assert "error" not in message, message["error"]
                result: dict[str, Any] = message["result"]
                return result
            self._record_event(message.get("method", ""), message.get("params", {}))

    def _record_event(self, method: str, event: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requested.append(event["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.errors.append(str(event["exceptionDetails"]))
        elif method == "Log.entryAdded":
            self.errors.append(event["entry"]["text"])

    def open(self, page: Path, fragment: str = "") -> None:
        """Load a file and wait until its scripts have run."""
        self.call("Page.navigate", url="about:blank")
        self.until("location.href === 'about:blank'")  # before, the page that was open looks like the new one
        self.call("Page.navigate", url=page.as_uri() + fragment)
        self.until("document.readyState === 'complete' && location.protocol === 'file:'")

    def evaluate(self, expression: str) -> Any:
        """Evaluate a JavaScript expression in the page and return its value."""
        response = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in response, response["exceptionDetails"]
        return response["result"].get("value")

    def until(self, condition: str) -> None:
        """Wait until a JavaScript condition is true."""
        deadline = time.monotonic() + PATIENCE
        while not self.evaluate(condition):
            assert time.monotonic() < deadline, f"timed out: {condition}"
            time.sleep(0.02)

    def text(self, selector: str) -> str:
        """Return the visible text of an element."""
        text: str = self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")
        return text

    def press(self, key: str) -> None:
        """Press a key, given by name or letter."""
        text = {"text": "\r"} if key == "Enter" else {} if key in _KEYS else {"text": key}
        code = _KEYS.get(key, ord(key.upper()[0]))
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def type(self, text: str) -> None:
        """Type text into the focused element."""
        self.call("Input.insertText", text=text)

    def paste(self) -> None:
        """Paste the clipboard into the focused element."""
        self.call("Input.dispatchKeyEvent", type="keyDown", key="v", modifiers=2, commands=["paste"])
        self.call("Input.dispatchKeyEvent", type="keyUp", key="v", modifiers=2)

    def click(self, selector: str) -> None:
        """Click in the middle of an element."""
        box = self.evaluate(
            f"(() => {{ const box = document.querySelector({json.dumps(selector)}).getBoundingClientRect();"
            " return [box.left + Math.min(box.width, 100) / 2, box.top + box.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def dark(self, *, on: bool = True) -> None:
        """Emulate a system with dark colours."""
        value = "dark" if on else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": value}])

    def emulate_phone(self, width: int, height: int) -> None:
        """Emulate a touch screen of a size in CSS pixels."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2, mobile=True)
        self.call("Emulation.setTouchEmulationEnabled", enabled=True)

    def emulate_desktop(self) -> None:
        """End the emulation of a phone."""
        self.call("Emulation.clearDeviceMetricsOverride")
        self.call("Emulation.setTouchEmulationEnabled", enabled=False)

    def accessible_names(self, role: str) -> list[str]:
        """Return the names that the nodes of a role have for assistive technology, in order."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [node["name"]["value"] for node in nodes if node.get("role", {}).get("value") == role and "name" in node]
