"""A page in headless Chromium, driven over its debugging pipe: open a file, ask it questions, take its picture.

    with open_page(path, width=390) as page:
        assert page.errors == []
        page.evaluate("document.images.length")
        page.screenshot(tmp_path / "page.png")

No package is needed beside the browser itself. Each page has a browser of its own, with a fresh profile and without
network use. Tests that open pages are marked `needs_browser` and are skipped where there is none.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

__all__ = ["CHROMIUM", "Page", "needs_browser", "open_page"]

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((path for path in map(shutil.which, NAMES) if path), None)
needs_browser = pytest.mark.skipif(
    CHROMIUM is None, reason=f"no browser found: none of {', '.join(NAMES)} is on the PATH"
)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
LAUNCH = """
import fcntl, os, sys
reads, writes = (fcntl.fcntl(int(fd), fcntl.F_DUPFD, 10) for fd in sys.argv[1:3])
os.dup2(reads, 3)
os.dup2(writes, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Chromium reads commands from descriptor 3 and answers on 4."""
PATIENCE = 120.0
"""Seconds to wait for any answer: a busy machine is slow."""


class Page:
    """A page that has loaded.

    Args:
        reads: Descriptor of the browser's answers.
        writes: Descriptor of our commands.
    """

    def __init__(self, reads: int, writes: int) -> None:
        self._reads, self._writes, self._buffer = reads, writes, b""
        self._number, self._session, self._seen = 0, "", list[str]()
        self.errors: list[str] = []
        """Errors and warnings of the console so far, uncaught exceptions and failed loads included."""

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression; promises are awaited."""
        answer = self._call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise AssertionError(f"{expression}: {_text(answer['exceptionDetails'])}")
        return answer["result"].get("value")

    def screenshot(self, path: str | Path, *, whole: bool = True) -> None:
        """Writes a PNG of the page, all of it or what the window shows."""
        answer = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        Path(path).write_bytes(base64.b64decode(answer["data"]))

    def load(self, address: str, width: int, height: int, *, dark: bool) -> None:
        """Opens an address in a window of a given size and waits until it has loaded."""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        answer = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = answer["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self._call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        failed = self._call("Page.navigate", url=address).get("errorText")
        assert not failed, f"{address}: {failed}"
        while "Page.loadEventFired" not in self._seen:
            self._take(self._receive())

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Sends a command and waits for its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._writes, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") != self._number:
                self._take(answer)
                continue
            assert "error" not in answer, f"{method}: {answer['error']}"
            result: dict[str, Any] = answer["result"]
            return result

    def _receive(self) -> dict[str, Any]:
        """The next message."""
        end = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._reads], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"the browser has not answered for {PATIENCE:g} s"
            more = os.read(self._reads, 2**20)
            assert more, "the browser has ended"
            self._buffer += more
        first, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(first)
        return message

    def _take(self, event: dict[str, Any]) -> None:
        """Remembers an event."""
        method, what = event.get("method", ""), event.get("params", {})
        self._seen.append(method)
        if method == "Runtime.exceptionThrown":
            self.errors.append(_text(what["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and what["type"] in (
            "error",
            "warning",
            "assert",
        ):
            words = [str(arg.get("value", arg.get("description", ""))) for arg in what["args"]]
            self.errors.append(" ".join(words))
        elif method == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning"):
            self.errors.append(what["entry"]["text"])


@contextmanager
def open_page(
    path: str | Path, width: int, height: int = 844, *, dark: bool = False
) -> Iterator[Page]:
    """Opens a file of HTML in a browser of its own.

    Args:
        path: The file.
        width: Width of the window in CSS pixels; below 600 the window is a phone's.
        height: Its height.
        dark: Whether the reader prefers dark colours.
    """
    assert CHROMIUM is not None, "mark the test with needs_browser"
    theirs, writes = os.pipe()
    reads, answers = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [
            CHROMIUM,
            *FLAGS,
            f"--user-data-dir={profile}",
            f"--window-size={width},{height}",
        ]
        browser = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, str(theirs), str(answers), *command],
            pass_fds=(theirs, answers),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs)
        os.close(answers)
        try:
            page = Page(reads, writes)
            page.load(Path(path).resolve().as_uri(), width, height, dark=dark)
            yield page
        finally:
            os.close(writes)  # the browser ends with its pipe
            os.close(reads)
            try:
                browser.wait(10)
            except subprocess.TimeoutExpired:
                browser.kill()
                browser.wait()


def _text(details: dict[str, Any]) -> str:
    """What an exception says."""
    exception = details.get("exception", {})
    return str(exception.get("description", details.get("text", "")))
