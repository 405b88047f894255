"""Real requests and answers about bundles."""

from typing import Any, Final

_DIGEST: Final = "f8e9ca77b3df4c26bc29c52e3f1f1e2f7b4d8f4e0d7c6a5b4c3d2e1f0a9b8c7d"
BUNDLE_REQUEST: Final[dict[str, Any]] = {
    "name": "quotes",
    "archive": "UEsFBgAAAAAAAAAAAAAAAAAAAAAAAA==",
    "note": "follows the next page, too",
}
BUNDLE: Final[dict[str, Any]] = {
    "name": "quotes",
    "project_id": "shop",
    "current": 2,
    "versions": [
        {
            "version": 2,
            "digest": _DIGEST,
            "bytes": 4210,
            "files": 9,
            "unpacked_bytes": 9876,
            "kind": "scrapy",
            "created_at": "2026-11-15T09:40:10.450000Z",
            "cause": "deployed by ann",
            "note": "follows the next page, too",
            "spiders": ["authors", "quotes"],
            "ready_on": ["node-1m7f8kvp71s4wsmynr9ptfx14"],
        },
        {
            "version": 1,
            "digest": _DIGEST[::-1],
            "bytes": 4102,
            "files": 9,
            "unpacked_bytes": 9655,
            "kind": "scrapy",
            "created_at": "2026-11-15T09:29:00.120000Z",
            "cause": "deployed by ann",
            "note": "",
            "spiders": ["quotes"],
            "ready_on": [],
        },
    ],
    "created_at": "2026-11-15T09:29:00.120000Z",
    "updated_at": "2026-11-15T09:40:10.450000Z",
    "version": 2,
}
BUNDLES: Final[dict[str, Any]] = {"items": [BUNDLE], "next_cursor": None}
ROLLBACK: Final[dict[str, Any]] = {"version": 1}
REMOVAL: Final[dict[str, Any]] = {"version": 1}
