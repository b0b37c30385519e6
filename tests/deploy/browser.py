"""Just enough of Chromium's DevTools protocol to drive a page in a test."""

import asyncio
import base64
import json
import shutil
import subprocess
import tempfile
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self, final

import websockets

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))),
    None,
)
SECONDS = 20.0
OPTIONS = (
    "--headless=new",
    "--no-sandbox",  # which needs rights that a container may lack; the pages are our own
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-extensions",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
    "--no-first-run",
    "--remote-debugging-port=0",
)


@final
class Browser:
    """A headless Chromium with one page; everything that it asks for is in `requested`."""

    def __init__(self) -> None:
        self.requested: list[str] = []
        self.complaints: list[str] = []
        self._number = 0

    async def __aenter__(self) -> Self:
        assert CHROMIUM is not None
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        command = [CHROMIUM, *OPTIONS, f"--user-data-dir={self._folder.name}", "about:blank"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        told = Path(self._folder.name) / "DevToolsActivePort"
        async with asyncio.timeout(SECONDS):
            while not told.is_file() or "\n" not in told.read_text():
                assert self._process.poll() is None, "Chromium ended at once"
                await asyncio.sleep(0.05)
        port = int(told.read_text().splitlines()[0])
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json", timeout=SECONDS) as reply:
            (page,) = [item for item in json.load(reply) if item["type"] == "page"]
        self._socket = await websockets.connect(page["webSocketDebuggerUrl"], max_size=2**26)
        for domain in ("Page", "Runtime", "Network", "Log"):
            await self.call(f"{domain}.enable")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._socket.close()
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()

    async def call(self, method: str, **parameters: Any) -> Any:
        """One command of the protocol; events on the way are noted."""
        self._number += 1
        await self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        async with asyncio.timeout(SECONDS):
            while True:
                message = json.loads(await self._socket.recv())
                if message.get("id") == self._number:
                    assert "error" not in message, message
                    return message["result"]
                self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        parameters = message.get("params", {})
        match message.get("method"):
            case "Network.requestWillBeSent":
                self.requested.append(parameters["request"]["url"])
            case "Log.entryAdded":
                self.complaints.append(parameters["entry"]["text"])
            case "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(parameters["exceptionDetails"]))

    async def look(self, expression: str) -> Any:
        """The value of an expression in the page."""
        found = await self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    async def until(self, expression: str) -> Any:
        """Wait until an expression is true in the page, and return its value."""
        async with asyncio.timeout(SECONDS):
            while not (found := await self.look(expression)):
                await asyncio.sleep(0.05)
        return found

    async def open(self, url: str, width: int = 1200, height: int = 800, dark: bool = False) -> None:
        """Show a page at a size and in a colour scheme."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])
        await self.call("Page.navigate", url=url)
        await self.until(f"document.readyState === 'complete' && location.href.startsWith({json.dumps(url)})")

    async def type(self, text: str) -> None:
        """Type where the focus is, as a keyboard would."""
        await self.call("Input.insertText", text=text)

    async def press(self, key: str, modifiers: int = 0) -> None:
        """Press a key; modifiers: 1 alt, 2 control, 8 shift."""
        code = {"Enter": 13, "Tab": 9}[key]
        for kind in ("rawKeyDown", "keyUp"):
            await self.call(
                "Input.dispatchKeyEvent",
                type=kind, key=key, code=key, windowsVirtualKeyCode=code, modifiers=modifiers,
            )  # fmt: skip

    async def picture(self, path: Path | str) -> None:
        """Save what is seen of the whole page."""
        found = await self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        Path(path).write_bytes(base64.b64decode(found["data"]))
