"""The API's reference page is the one that the route table gives, and leaves no route out."""

import re
import runpy
from pathlib import Path

from crawlfleet.api.app import ROUTES

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "reference" / "api.md").read_text("utf-8")


def test_the_page_is_what_the_table_gives() -> None:
    wanted: str = runpy.run_path(str(DOCS / "api.py"))["render"]()
    assert wanted == PAGE, "docs/reference/api.md is stale: run `python docs/api.py`"


def test_the_page_has_every_route_once() -> None:
    shown = re.findall(r"^### `([A-Z]+ /[^`]*)`$", PAGE, re.MULTILINE)
    assert sorted(shown) == sorted(f"{route.method} {route.path}" for route in ROUTES)
