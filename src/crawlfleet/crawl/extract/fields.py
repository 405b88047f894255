"""Compiled fields: expressions are compiled once, values read many times."""

import re
from collections.abc import Iterable, Iterator
from math import isfinite
from typing import Any, Final

import msgspec
from selectolax.lexbor import LexborNode

from crawlfleet.core.pages import css, json_path
from crawlfleet.core.pages.values import convert, read_json, text_of_number
from crawlfleet.core.text.patterns import compile_pattern
from crawlfleet.crawl.extract.css_search import find
from crawlfleet.crawl.extract.markup import HtmlPage
from crawlfleet.crawl.extract.text import TextBudget, text_of, text_of_xml
from crawlfleet.model.crawl.extraction import FieldPlan, Language, ValueType

MOST: Final = 10_000
"""Maximum number of values of one field in one item."""
_SIMPLE: Final = re.compile(r"([A-Za-z][A-Za-z0-9]*)(?:[.#][A-Za-z_][A-Za-z0-9_-]*)*").fullmatch
PATTERN_LONGEST: Final = 100_000
"""Maximum number of characters that a regular expression searches."""


class FieldReader:
    """One field of a plan, or a group of them."""

    __slots__ = (
        "_plain",
        "chains",
        "fields",
        "name",
        "path",
        "pattern",
        "plan",
        "query",
        "tag",
        "type",
        "xpath",
    )

    def __init__(self, plan: FieldPlan, *, nested: bool = False) -> None:
        self.plan = plan
        self.name = plan.name
        self.type = plan.type
        self.query = query = plan.query
        self.chains = css.chains(query.expression) if query.language is Language.CSS else ()
        simple = _SIMPLE(query.expression) if query.language is Language.CSS else None
        self.tag = simple[1].lower() if simple else None
        """The only elements that it can be, where nothing but they themselves decides that."""
        self.pattern = compile_pattern(plan.pattern) if plan.pattern else None
        self.path = query.path
        self.xpath = None
        if query.language is Language.XPATH:
            # Within a group, `//x` means the `x` within the match; nobody wants the page's.
            inside = nested and query.expression.startswith("//")
            expression = f".{query.expression}" if inside else query.expression
            from lxml import etree

            self.xpath = etree.XPath(expression, smart_strings=False)
        # By far the most fields are like this, and have a shorter way.
        self._plain = (
            plan == FieldPlan(name=plan.name, query=query, default=plan.default, path=plan.path)
            and query.language is Language.CSS
            and query.attribute is None
            and not (query.html or query.own)
        )
        self.fields = tuple(FieldReader(field, nested=True) for field in plan.fields)

    def elements(self, page: HtmlPage) -> list[LexborNode]:
        """Return the elements that a CSS field matches on the page."""
        return find(page, self.query.expression, self.chains)

    def xml_places(self, scope: Any) -> list[Any]:
        """Return the elements, texts and numbers that an XPath field matches; nothing if it
        fails."""
        from lxml import etree

        try:
            found = self.xpath(scope) if self.xpath is not None else []
        except (etree.XPathError, ValueError, TypeError):
            return []
        if isinstance(found, float) and not isfinite(found):
            return []  # the number of something that is none, or a division by zero
        return found if isinstance(found, list) else [found]

    def value(self, places: Iterable[Any], page: HtmlPage) -> Any:
        """Return the field's value from its matches: elements, texts or JSON values."""
        if self._plain:
            for place in places:
                if text := " ".join(text_of(place, page.allowance).split()):
                    return text
            return self.plan.default
        if self.type is ValueType.EXISTS:
            return any(True for _ in places)
        values = self._values(places, page)
        if not self.plan.many:
            return next(values, self.plan.default)
        return list(_first(values, MOST)) or self.plan.default or []

    def inner(self, places: Iterable[Any], page: HtmlPage) -> list[Any]:
        """Return the JSON values at a group's path in the matched texts."""
        if self.plan.inner is None:
            return list(places)
        found: list[Any] = []
        for place in places:
            found += json_path.select(read_json(self._text(place, page.allowance)), self.plan.inner)
        return found

    def _values(self, places: Iterable[Any], page: HtmlPage) -> Iterator[Any]:
        """Each place's value; those without one are left out."""
        if self.plan.inner is not None or self.query.language is Language.JSON:
            for found in self.inner(places, page):
                value = self._of_json(found, page)
                if value is not None:
                    yield value
            return
        for place in places:
            value = self._of_text(self._text(place, page.allowance), page)
            if value is not None:
                yield value

    def _of_text(self, text: str, page: HtmlPage) -> Any:
        if self.pattern is not None:
            found = self.pattern.search(text[:PATTERN_LONGEST])
            if found is None:
                return None
            text = (found.group(1) if self.pattern.groups else found.group()) or ""
        if self.type is ValueType.TEXT:
            return " ".join(text.split()) or None
        if self.type is ValueType.URL:
            text = page.spelt(text)
        return convert(text, self.type, base=page.base, format=self.plan.format)

    def _of_json(self, value: Any, page: HtmlPage) -> Any:
        if value is None or (self.type is ValueType.JSON and self.pattern is None):
            return value
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        return self._of_text(text, page)

    def _text(self, place: Any, allowance: TextBudget) -> str:
        query = self.query
        if isinstance(place, LexborNode):
            if query.attribute is not None:
                return place.attributes.get(query.attribute) or ""
            if query.html:
                return "" if allowance.used_up else allowance.take(place.html or "")
            return place.text(deep=False) if query.own else text_of(place, allowance)
        if isinstance(place, str):
            return place
        if isinstance(place, bool):
            return "true" if place else "false"
        if isinstance(place, float):
            return text_of_number(place)
        return text_of_xml(place, allowance) if hasattr(place, "tag") else str(place)


def _first(values: Iterator[Any], most: int) -> Iterator[Any]:
    for _, value in zip(range(most), values, strict=False):
        yield value
