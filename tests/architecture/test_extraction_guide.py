"""The examples of the extraction guide give what the guide says."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from crawlfleet.core.pages.selectors import make_plan
from crawlfleet.crawl.extract.extract import Extractor
from crawlfleet.crawl.extract.markup import HtmlPage
from crawlfleet.errors import InvalidRequest

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "extraction.md").read_text("utf-8")
BLOCKS = re.findall(r"<!-- (\w+) -->\n```\w+\n(.*?)```", GUIDE, re.DOTALL)
PAGE = next(text for kind, text in BLOCKS if kind == "page")
PAIRS = [
    (kind, text, *BLOCKS[at + 1])
    for at, (kind, text) in enumerate(BLOCKS)
    if kind in {"selectors", "parameters"}
]


def result(parameters: dict[str, Any]) -> dict[str, Any]:
    page = HtmlPage(PAGE.encode(), "https://shop.example/products")
    found: dict[str, Any] = {}
    for item in Extractor(make_plan(**parameters)).items(page):
        found.setdefault(item.kind, []).append(item.fields)
    return found


def test_there_are_examples() -> None:
    assert len(PAIRS) == 6
    assert [kind for _, _, kind, _ in PAIRS].count("gives") == 5


@pytest.mark.parametrize(("given", "text", "kind", "expected"), PAIRS)
def test_an_example_gives_what_the_guide_says(
    given: str, text: str, kind: str, expected: str
) -> None:
    parameters = json.loads(text) if given == "parameters" else {"selectors": json.loads(text)}
    if kind == "gives":
        assert result(parameters) == json.loads(expected)
    else:
        with pytest.raises(InvalidRequest) as raised:
            make_plan(**parameters)
        told = [f"{p.field}: {p.message} → {p.remedy}" for p in raised.value.problems]
        assert told == expected.strip().splitlines()


def test_structured_data_is_as_the_guide_says() -> None:
    expected = next(text for kind, text in BLOCKS if kind == "structured")
    assert result({"selectors": {}, "structured": True}) == json.loads(expected)
