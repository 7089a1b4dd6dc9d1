"""A Chromium without a window, told what to do by its own protocol over two pipes, so that no port is open.

Source: the Chrome DevTools Protocol. With ``--remote-debugging-pipe`` it reads messages of JSON, each ended by a zero
byte, from descriptor 3, and writes them to descriptor 4.
"""

import base64
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

WAIT_S = 60.0
# By way of high numbers, so that neither pipe is in the way of the other's.
_LAUNCH = """
import fcntl, os, sys
told, tells = (fcntl.fcntl(int(pipe), fcntl.F_DUPFD, 100) for pipe in sys.argv[1:3])
os.dup2(told, 3), os.dup2(tells, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
_COMPLAINTS = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded", "Network.requestWillBeSent")


class Look(NamedTuple):
    """How a page is looked at: ``width`` in CSS pixels, ``scheme`` light or dark."""

    name: str
    width: int
    scheme: str


class Chromium:
    """One browser with one tab; ``complaints`` are what it logged and what it asked for since a page was opened."""

    def __init__(self, program: str, folder: Path) -> None:
        told, self._tells = os.pipe()
        self._told, tells = os.pipe()
        self._process = subprocess.Popen(
            [
                sys.executable, "-c", _LAUNCH, str(told), str(tells), program, "--headless=new", "--no-sandbox",
                "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe", f"--user-data-dir={folder}",
            ],
            pass_fds=(told, tells), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=os.environ | {"HOME": str(folder)},
        )  # fmt: skip
        os.close(told)
        os.close(tells)
        self._number, self._rest, self._events, self._session, self._scheme = 0, b"", [], None, "light"

    def start(self) -> None:
        """Open the tab."""
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._ask(f"{domain}.enable")

    def open(self, page: Path) -> None:
        """Load a page of this machine, and wait until it is there."""
        self._events.clear()
        self._ask("Page.navigate", url=page.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self._events):
            self._events.append(self._next())

    def look(self, look: Look) -> None:
        """Look so from now on."""
        self._ask(
            "Emulation.setDeviceMetricsOverride", width=look.width, height=900, deviceScaleFactor=1,
            mobile=look.width < 600,
        )  # fmt: skip
        self._emulate("", look.scheme)
        self._scheme = look.scheme

    def print_on_screen(self) -> None:
        """Show the page that is open as it is printed, until it is looked at otherwise."""
        self._emulate("print", self._scheme)

    def _emulate(self, media: str, scheme: str) -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._ask("Emulation.setEmulatedMedia", media=media, features=features)

    @property
    def complaints(self) -> list[str]:
        """Everything that the page logged, threw, or asked the network for, beside itself."""
        own = [event for event in self._events if event.get("method") in _COMPLAINTS]
        return [json.dumps(event["params"]) for event in own if not _is_the_page(event)]

    def value(self, script: str):
        """What a script is worth; a promise is waited for."""
        done = self._ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def press(self, key: str) -> None:
        """Press and let go of a key."""
        for kind in ("rawKeyDown", "keyUp"):
            self._ask("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode={"Tab": 9}[key])

    def screenshot(self) -> bytes:
        """The whole page as PNG, at most 16,000 pixels of its height, which is what Chromium can paint."""
        size = self._ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 16_000), "scale": 1}
        shot = self._ask("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        return base64.b64decode(shot["data"])

    def pdf(self) -> bytes:
        """The page as it is printed."""
        return base64.b64decode(self._ask("Page.printToPDF", printBackground=False, preferCSSPageSize=True)["data"])

    def end(self) -> None:
        """End the browser."""
        self._process.terminate()
        self._process.wait(WAIT_S)
        os.close(self._tells)
        os.close(self._told)

    def _ask(self, method: str, **params: object):
        self._number += 1
        session = {} if self._session is None else {"sessionId": self._session}
        left = json.dumps({"id": self._number, "method": method, "params": params, **session}).encode() + b"\0"
        while left:
            left = left[os.write(self._tells, left) :]
        while (said := self._next()).get("id") != self._number:
            self._events.append(said)
        assert "error" not in said, (method, said["error"])
        return said["result"]

    def _next(self):
        deadline = time.monotonic() + WAIT_S
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._told], [], [], max(0.0, deadline - time.monotonic()))
            chunk = os.read(self._told, 1 << 20) if ready else b""
            assert chunk, "Chromium ended, or said nothing for a minute"
            self._rest += chunk
        said, _, self._rest = self._rest.partition(b"\0")
        return json.loads(said)


def _is_the_page(event) -> bool:
    if event["method"] != "Network.requestWillBeSent":
        return False
    return event["params"]["type"] == "Document" and event["params"]["request"]["url"].startswith("file:")
