"""Real requests and answers of the dashboard."""

from typing import Any, Final

_SHOWN_ONCE: Final = "6b1f0e8c2a4d4f0c9be1a3a7d9c0f5e27c1d93b8a6e4f20511c7d8e9fa0b1c2d"
SIGN_IN: Final[dict[str, Any]] = {"link": _SHOWN_ONCE}
SESSION: Final[dict[str, Any]] = {
    "name": "ann",
    "role": "operator",
    "projects": ["shop"],
    "expires_at": "2026-11-16T09:29:04.460000Z",
    "csrf": "0f343b0931126a20f133d67c2b018a3b5c3b1f9d0e2a4c68a1d2e3f405162738",
}
SESSION_LINK: Final[dict[str, Any]] = {
    "path": f"/open#{_SHOWN_ONCE}",
    "token": _SHOWN_ONCE,
    "expires_at": "2026-11-15T09:39:04.460000Z",
}
