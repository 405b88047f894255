"""The system's Chromium, for tests and measurements of the dashboard."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser, without a window."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    assert found, "this looks with Chromium; on Debian: apt-get install chromium"
    with sync_playwright() as play:
        # As root it has no sandbox; what it is shown is ours.
        browser = play.chromium.launch(
            executable_path=found, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        try:
            yield browser
        finally:
            browser.close()
