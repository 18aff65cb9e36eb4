"""A headless browser on one page, and all it said and asked for."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    # Chromium is to ask for nothing of its own
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@dataclass
class Seen:
    """What a page said on its console, and the addresses it asked for."""

    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


def _launched(playwright: Any, dark: bool) -> Any:  # noqa: ANN401 - playwright is not there when types are checked
    """Chromium, the program that CHROMIUM names or the one on the PATH; where FIREFOX is set, that program.

    Firefox is the distribution's, driven by WebDriver BiDi.
    """
    if firefox := os.environ.get("FIREFOX"):
        colours = {"layout.css.prefers-color-scheme.content-override": 0 if dark else 1}
        return playwright.firefox.launch(
            channel="moz-firefox", executable_path=firefox, firefox_user_prefs=colours
        )
    program = os.environ.get("CHROMIUM") or shutil.which("chromium")
    assert program, "these tests need Chromium: apt install chromium, or name it in CHROMIUM"
    return playwright.chromium.launch(executable_path=program, args=FLAGS)


@contextmanager
def opened(file: Path, width: int, height: int = 900, dark: bool = False) -> Iterator[tuple[Any, Seen]]:
    """A page in a browser of its own."""
    from playwright.sync_api import sync_playwright

    seen = Seen()
    with sync_playwright() as playwright:
        browser = _launched(playwright, dark)
        page = browser.new_page(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
        )
        page.on("console", lambda message: seen.said.append(message.text))
        page.on("pageerror", lambda error: seen.said.append(str(error)))
        page.on("request", lambda request: seen.asked.append(request.url))
        page.goto(file.resolve().as_uri())
        yield page, seen
        browser.close()
    assert seen.said == []
    # Firefox does not tell of the file itself
    assert seen.asked == [] if os.environ.get("FIREFOX") else seen.asked == [file.resolve().as_uri()]
