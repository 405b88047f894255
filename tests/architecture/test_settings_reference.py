"""The page of settings is the one that the settings give."""

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_has_every_setting_as_it_is() -> None:
    wanted: str = runpy.run_path(str(DOCS / "settings.py"))["render"]()
    page = (DOCS / "reference" / "settings.md").read_text("utf-8")
    assert page == wanted, "docs/reference/settings.md is stale: run `python docs/settings.py`"
