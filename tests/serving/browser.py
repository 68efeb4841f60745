"""A real headless Chromium, driven over its DevTools protocol: as much as the page's test needs."""

import base64
import contextlib
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
from websockets.sync.client import ClientConnection, connect

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
TIMEOUT_S = 60


def find_browser() -> str | None:
    """The executable: what ``DSI_RAY_BROWSER`` says, or one of the usual names."""
    chosen = os.environ.get("DSI_RAY_BROWSER")
    return chosen or next(filter(None, map(shutil.which, NAMES)), None)


class Page:
    """A tab.

    Attributes:
        problems: Exceptions and error messages of the page so far, such as a forbidden script.
    """

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._ids = itertools.count()
        self.problems: list[str] = []
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Calls a method of the protocol and returns its result."""
        number = next(self._ids)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(TIMEOUT_S))
            self._note(message)
            if message.get("id") == number:
                assert "error" not in message, message
                result: dict[str, Any] = message["result"]
                return result

    def _note(self, message: dict[str, Any]) -> None:
        parameters = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(parameters["exceptionDetails"]))
        if message.get("method") == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.problems.append(json.dumps(parameters["entry"]))

    def open(self, url: str) -> None:
        """Goes to an address and waits for its scripts."""
        self.call("Page.navigate", url=url)
        self.wait_for(f"location.href === {json.dumps(url)} && document.readyState === 'complete'")

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression; of a promise, what it resolves to."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, condition: str) -> None:
        """Waits, inside the page and frame by frame, until an expression is true."""
        met = self.evaluate(
            f"""new Promise((resolve) => {{
                const deadline = performance.now() + {TIMEOUT_S - 10}e3;
                const look = () => ({condition}) ? resolve(true)
                    : performance.now() > deadline ? resolve(false) : requestAnimationFrame(look);
                look();
            }})"""
        )
        assert met, f"in vain: {condition}\n{self.text('body')}"

    def text(self, selector: str) -> str:
        """The text of an element, as it is seen."""
        text: str = self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")
        return text

    def click(self, selector: str) -> None:
        """Clicks an element's middle, as a person would: what covers it gets the click."""
        x, y = self.evaluate(
            f"""(() => {{
                const element = document.querySelector({json.dumps(selector)});
                element.scrollIntoView({{ block: "center" }});
                const box = element.getBoundingClientRect();
                return [box.left + box.width / 2, box.top + box.height / 2];
            }})()"""
        )
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            button = "none" if kind == "mouseMoved" else "left"
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, clickCount=1)

    def type(self, text: str) -> None:
        """Types over what the focused field holds."""
        self.evaluate("document.activeElement.select()")
        self.call("Input.insertText", text=text)

    def press(self, key: str) -> None:
        """Presses a key."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key)

    def show(self, width: int, height: int, scheme: str = "light") -> None:
        """Makes the window this large, and the system light or dark."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2,
            mobile=width < 500,
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)
        self.evaluate(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )

    def screenshot(self, file: Path) -> None:
        """Writes a picture of the whole page."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        answer = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        file.write_bytes(base64.b64decode(answer["data"]))


class Browser:
    """A Chromium of its own, with a fresh profile.

    Args:
        executable: From :func:`find_browser`.
    """

    def __init__(self, executable: str) -> None:
        self._executable = executable
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        command = [
            self._executable,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--no-first-run",
            "--remote-debugging-port=0",
            f"--user-data-dir={folder}",
            "about:blank",
        ]
        process = self._stack.enter_context(
            subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        )
        assert process.stderr is not None
        self._address = _address(process.stderr)
        # What else it has to say must not fill the pipe: it would wait for a reader.
        rest = threading.Thread(target=process.stderr.read)
        rest.start()
        self._stack.callback(rest.join)
        self._stack.callback(process.terminate)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    @contextlib.contextmanager
    def page(self) -> Iterator[Page]:
        """A new tab."""
        tab = httpx.put(f"http://{self._address}/json/new?about:blank").raise_for_status().json()
        with connect(tab["webSocketDebuggerUrl"], max_size=None) as socket:
            yield Page(socket)


def _address(log: Iterable[str]) -> str:
    """Host and port of the DevTools, which the browser prints when it is ready."""
    for line in log:
        if line.startswith("DevTools listening on ws://"):
            return line.split("/")[2]
    raise RuntimeError("the browser did not start")
