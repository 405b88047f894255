"""Requests as they travel: Scrapy's own dictionaries, in JSON."""

import json
import os
from typing import Any, Final
from urllib.parse import urlsplit

KEY: Final = "crawlfleet_page"
"""Key in a request's `meta` of the page that it belongs to. Requests made from it inherit the
key."""
USUAL_PORTS: Final = {"http": ":80", "https": ":443"}
PROXIES: Final = ("http_proxy", "https_proxy", "all_proxy")
OF_PROXY: Final = ("proxy", "_auth_proxy")


class Unpackable(ValueError):
    """Something in a request cannot be written down."""


def written(request: Any, spider: Any) -> str:
    """A request as text; raises `ValueError` when something in it cannot be written down."""
    told = request.to_dict(spider=spider)
    meta = {name: value for name, value in (told.get("meta") or {}).items() if name != KEY}
    if isinstance(proxy := meta.get("proxy"), str) and _place(proxy) in _own_proxies():
        # A request that is made once more has this cell's; another cell has another.
        meta = {name: value for name, value in meta.items() if name not in OF_PROXY}
        headers = told.get("headers") or {}
        told["headers"] = {
            name: value for name, value in headers.items() if name != b"Proxy-Authorization"
        }
    if "meta" in told:
        told["meta"] = meta
    return json.dumps(pack(told))


def read(text: str, spider: Any) -> Any:
    """The request again."""
    from scrapy.utils.request import request_from_dict

    return request_from_dict(unpack(json.loads(text)), spider=spider)


def host_of(url: str) -> str:
    """The host of a URL, as all crawls of a fleet call it: `https://shop.example:8443`."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2].lower()
    return f"{parts.scheme}://{place.removesuffix(USUAL_PORTS.get(parts.scheme, ' '))}"


def pack(value: Any) -> Any:
    """A value as JSON has it, so that `unpack` gives the same again; raises `Unpackable`."""
    if value is None or isinstance(value, bool | int | float | str):
        if type(value) not in (type(None), bool, int, float, str):
            raise Unpackable(f"{type(value).__name__} is not a plain value")
        return value
    if isinstance(value, bytes):
        return {"$": "bytes", "is": value.decode("latin-1")}
    if type(value) is list:
        return [pack(each) for each in value]
    if type(value) in (tuple, set, frozenset):
        return {"$": type(value).__name__, "is": [pack(each) for each in value]}
    if type(value) is dict:
        if "$" not in value and all(type(key) is str for key in value):
            return {key: pack(each) for key, each in value.items()}
        return {"$": "dict", "is": [[pack(key), pack(each)] for key, each in value.items()]}
    raise Unpackable(f"{type(value).__name__} is not a plain value")


def unpack(value: Any) -> Any:
    """Return the value that was given to `pack`."""
    if isinstance(value, list):
        return [unpack(each) for each in value]
    if not isinstance(value, dict):
        return value
    if "$" not in value:
        return {key: unpack(each) for key, each in value.items()}
    held = value["is"]
    if value["$"] == "bytes":
        return held.encode("latin-1")
    if value["$"] == "dict":
        return {unpack(key): unpack(each) for key, each in held}
    made = {"tuple": tuple, "set": set, "frozenset": frozenset}[value["$"]]
    return made(unpack(each) for each in held)


def _own_proxies() -> set[str]:
    found = (os.environ.get(name) or os.environ.get(name.upper()) for name in PROXIES)
    return {_place(each) for each in found if each}


def _place(proxy: str) -> str:
    return urlsplit(proxy).netloc.rpartition("@")[2]
