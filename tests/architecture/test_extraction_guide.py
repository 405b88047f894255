"""The examples of the extraction guide give what the guide says."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from crawlfleet.core.selectors import make_plan
from crawlfleet.crawl.extract import Extractor
from crawlfleet.crawl.markup import Page
from crawlfleet.errors import InvalidRequest

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "extraction.md").read_text("utf-8")
BLOCKS = re.findall(r"<!-- (\w+) -->\n```\w+\n(.*?)```", GUIDE, re.DOTALL)
PAGE = next(text for kind, text in BLOCKS if kind == "page")
PAIRS = [(BLOCKS[at][1], *BLOCKS[at + 1]) for at, (k, _) in enumerate(BLOCKS) if k == "selectors"]


def result(selectors: dict[str, Any], *, structured: bool = False) -> dict[str, Any]:
    page = Page(PAGE.encode(), "https://shop.example/products")
    found: dict[str, Any] = {}
    for item in Extractor(make_plan(selectors, structured=structured)).items(page):
        found.setdefault(item.kind, []).append(item.fields)
    return found


def test_there_are_examples() -> None:
    assert len(PAIRS) == 5
    assert [kind for _, kind, _ in PAIRS].count("gives") == 4


@pytest.mark.parametrize(("selectors", "kind", "expected"), PAIRS)
def test_an_example_gives_what_the_guide_says(selectors: str, kind: str, expected: str) -> None:
    if kind == "gives":
        assert result(json.loads(selectors)) == json.loads(expected)
    else:
        with pytest.raises(InvalidRequest) as raised:
            make_plan(json.loads(selectors))
        told = [f"{p.field}: {p.message} → {p.remedy}" for p in raised.value.problems]
        assert told == expected.strip().splitlines()


def test_structured_data_is_as_the_guide_says() -> None:
    expected = next(text for kind, text in BLOCKS if kind == "structured")
    assert result({}, structured=True) == json.loads(expected)
