"""Opens the browser of this machine, if it has a desktop."""

import asyncio
import os
import sys
import webbrowser


def has_desktop() -> bool:
    """Return whether this user has a desktop that can show a browser."""
    if sys.platform == "darwin":
        return "SSH_CONNECTION" not in os.environ
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


async def show(url: str) -> bool:
    """Open a page if there is a desktop, and return whether that worked."""
    return has_desktop() and await asyncio.to_thread(webbrowser.open, url)
