"""Pictures of a report as Chromium shows it: `python -m tests.report.screenshots REPORT.html OUT_DIR`.

Light and dark, wide and narrow, and printed. Fails if the page is wider than the window, logs an error, asks for
anything but itself, or if two texts of a chart overlap or one is cut off. `make screenshots` runs it on the
sample data.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WIDTHS = (1280, 400)
SCHEMES = ("light", "dark")
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")

# Returns what is wrong with the layout, in words.
LAYOUT = """(() => {
  const wrong = [];
  const root = document.scrollingElement;
  if (root.scrollWidth > window.innerWidth) wrong.push(`page ${root.scrollWidth} wide in ${window.innerWidth}`);
  for (const svg of document.querySelectorAll('svg[role=img]')) {
    const frame = svg.getBoundingClientRect(), texts = [...svg.querySelectorAll('text')];
    const boxes = texts.map(text => text.getBoundingClientRect());
    const title = svg.querySelector('title').textContent;
    boxes.forEach((a, i) => {
      const name = `${title}: ${JSON.stringify(texts[i].textContent)}`;
      if (a.left < frame.left - 2 || a.right > frame.right + 2 || a.bottom > frame.bottom + 2)
        wrong.push(`${name} leaves the chart`);
      boxes.slice(i + 1).forEach((b, j) => {
        const w = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const h = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (w > 1 && h > 3) wrong.push(`${name} overlaps ${JSON.stringify(texts[i + 1 + j].textContent)}`);
      });
    });
  }
  return wrong;
})()"""


class Browser:
    """A headless Chromium, spoken to over a pair of pipes in its DevTools protocol."""

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back = to, back
        self._ids = itertools.count(1)
        self._buffer = b""
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session: str | None = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    _session = None

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and return its result; events that come meanwhile are kept."""
        message: dict[str, Any] = {"id": next(self._ids), "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data) :]
        while True:
            answer = self._receive()
            if answer.get("id") == message["id"]:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return dict(answer["result"])
            self.events.append(answer)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            part = os.read(self._back, 1 << 20)
            if not part:
                raise RuntimeError("Chromium has gone")
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(line))

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression on the page."""
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def open(self, path: Path) -> None:
        """Load a file and wait until it is there."""
        self.events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        while self.evaluate("document.readyState") != "complete" or self.evaluate("location.href") == "about:blank":
            pass

    def complaints(self) -> list[str]:
        """What the page asked for besides itself, and the errors it logged."""
        wanted = [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        logged = [e["params"]["entry"]["text"] for e in self.events if e.get("method") == "Log.entryAdded"]
        return [f"asked for {url}" for url in wanted[1:]] + [f"logged {text}" for text in logged]


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a Chromium of its own and end it."""
    found = next((path for path in map(shutil.which, NAMES) if path), None)
    if found is None:
        sys.exit("Chromium is not installed (Debian, Ubuntu: the package chromium)")
    to_child, to, back, from_child = (*os.pipe(), *os.pipe())

    with tempfile.TemporaryDirectory() as profile:
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe"]
        process = subprocess.Popen(
            # Chromium reads commands from 3 and answers on 4; only a shell can put the pipes there safely.
            ["sh", "-c", f'exec "$0" "$@" 3<&{to_child} 4>&{from_child}', found, *flags, f"--user-data-dir={profile}"],
            pass_fds=(to_child, from_child),
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        os.close(to_child)
        os.close(from_child)
        try:
            yield Browser(to, back)
        finally:
            process.terminate()
            process.wait()


def take(report: Path, out: Path) -> list[str]:
    """Write the pictures of a report; return what is wrong with it."""
    wrong = []
    out.mkdir(parents=True, exist_ok=True)
    with chromium() as browser:
        browser.open(report)
        for width, scheme in itertools.product(WIDTHS, SCHEMES):
            browser.call(
                "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
            )
            browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            wrong += [f"{width} {scheme}: {text}" for text in browser.evaluate(LAYOUT)]
            height = browser.evaluate("document.scrollingElement.scrollHeight")
            clip = {"x": 0, "y": 0, "width": width, "height": min(height, 16_000), "scale": 1}
            shot = browser.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
            (out / f"{report.stem}-{width}-{scheme}.png").write_bytes(base64.b64decode(shot["data"]))
        printed = browser.call("Page.printToPDF", preferCSSPageSize=True, printBackground=True)
        (out / f"{report.stem}.pdf").write_bytes(base64.b64decode(printed["data"]))
        wrong += browser.complaints()
    return wrong


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python -m tests.report.screenshots REPORT.html OUT_DIR")
    complaints = take(Path(sys.argv[1]), Path(sys.argv[2]))
    sys.exit("\n".join(complaints) if complaints else 0)
