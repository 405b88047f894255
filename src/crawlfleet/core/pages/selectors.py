"""Selectors of a crawl, compiled from the `selectors` parameter to a checked plan.

A flat map names places (`{"product": "div.product", "title": "h2.title"}`); `item` selects the
element of one item, and the map its fields; the explicit form has groups with `fields`. A text is
CSS unless it begins like XPath (`//`, `./`, `xpath:`) or a JSON path (`$`, `json:`); within a group
whose matches are JSON, it is a path. All problems are reported at once, each with its field and a
remedy.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from selectolax.lexbor import LexborHTMLParser, SelectolaxError

from crawlfleet.core.pages import css, json_path
from crawlfleet.core.pages.values import strptime_works
from crawlfleet.core.text.decode_errors import field_problem
from crawlfleet.core.text.patterns import REMEDY, pattern_problem
from crawlfleet.errors import FieldProblem, InvalidRequest
from crawlfleet.model.crawl.extraction import (
    ITEMS,
    LONGEST,
    PAGE_URL,
    ExtractionPlan,
    FieldPlan,
    FieldSpec,
    Language,
    SelectorQuery,
    Step,
    ValueType,
)

SELECTORS: Final = "selectors"
ITEM: Final = "item"
MAX_FIELDS: Final = 500
DEEPEST: Final = 8
_PREFIXES: Final = (("css:", Language.CSS), ("xpath:", Language.XPATH), ("json:", Language.JSON))
_XPATH_BEGINS: Final = ("/", "./", "../", "(/", "(./")
_HINTS: Final = (
    ("::", "`::text`, `::own`, `::html` and `::attr(name)` stand at the end, once"),
    (":scope", "leave `:scope` out: fields are looked for within their item anyway"),
    ("//", "write XPath as `xpath:…` or under the key `xpath`"),
)


def make_plan(
    selectors: Mapping[str, Any],
    *,
    item: str | None = None,
    infer_item: bool = True,
    structured: bool = False,
) -> ExtractionPlan:
    """Return the plan. Raises `InvalidRequest` with every problem when the selectors are not valid.

    With an `item`, each of its matches is an item, and the selectors are its fields. Without one,
    and unless groups are named, `infer_item` decides whether a key whose matches contain those of
    the others is the item; else the page is the item, with all keys as its fields.
    """
    reader = _Reader()
    if item is not None:
        group = reader.item(item, selectors)
        if reader.problems or group is None:
            raise InvalidRequest(reader.problems)
        return ExtractionPlan(groups=(group,), structured=structured)
    fields = reader.fields(selectors, SELECTORS, Language.CSS, depth=1)
    if reader.problems:
        raise InvalidRequest(reader.problems)
    groups = tuple(field for field in fields if field.fields)
    may_be_inferred = infer_item and len(fields) > 1 and not groups
    if may_be_inferred and all(_may_contain(field) for field in fields):
        return ExtractionPlan(flat=fields, structured=structured)
    page = tuple(field for field in fields if not field.fields)
    return ExtractionPlan(groups=groups, page=page, structured=structured)


class _Reader:
    """Reader of the selectors that people write; it collects all problems."""

    def __init__(self) -> None:
        self.problems: list[FieldProblem] = []
        self._count = 0
        self._nothing = LexborHTMLParser(b"")

    def item(self, written: str, selectors: Mapping[str, Any]) -> FieldPlan | None:
        """Return the group of the items that `item` selects, with the selectors as its fields."""
        if not 0 < len(written.strip()) <= LONGEST:
            self._wrong(ITEM, f"is empty, or longer than {LONGEST} characters", "name a selector")
            return None
        query = self._query(FieldSpec(select=written), ITEM, Language.CSS)
        if query is None:
            return None
        if _takes_text(query):
            self._wrong(
                ITEM,
                "takes a text where items are elements",
                "leave `@…` or `::…` to the fields",
                value=written,
            )
        if not selectors:
            self._wrong(ITEM, "has no fields", "name in `selectors` what is taken out of each item")
        fields = self.fields(selectors, SELECTORS, query.language, depth=2)
        self._check_languages(fields, SELECTORS, query.language, ITEM)
        return FieldPlan(name=ITEMS, query=query, many=True, fields=fields, path=ITEM)

    def fields(
        self, written: Mapping[str, Any], at: str, language: Language, depth: int
    ) -> tuple[FieldPlan, ...]:
        if depth > DEEPEST:
            self._wrong(at, f"is nested more than {DEEPEST} deep", "take a group apart")
            return ()
        self._count += len(written)
        if self._count > MAX_FIELDS:
            self._wrong(at, f"has more than {MAX_FIELDS} fields", "split the crawl")
            return ()
        read = (
            self._field(name, value, f"{at}.{name}", language, depth)
            for name, value in written.items()
        )
        return tuple(field for field in read if field is not None)

    def _field(
        self, name: str, value: Any, at: str, language: Language, depth: int
    ) -> FieldPlan | None:
        if not isinstance(value, str | Mapping):
            self._wrong(at, "is neither a selector nor an object", 'write "h2.title", or an object')
            return None
        if isinstance(value, str) and not 0 < len(value.strip()) <= LONGEST:
            self._wrong(at, f"is empty, or longer than {LONGEST} characters", "name a selector")
            return None
        try:
            spec = (
                FieldSpec(select=value)
                if isinstance(value, str)
                else msgspec.convert(value, FieldSpec)
            )
        except msgspec.ValidationError as error:
            self.problems.append(field_problem(error, FieldSpec, within=at))
            return None
        query = self._query(spec, at, language)
        if query is None:
            return None
        if name == PAGE_URL and (depth == 2 or (depth == 1 and spec.fields is None)):
            self._wrong(
                at, "has the name under which every item has its page's address", "rename it"
            )
        inner = self._inner(spec, at)
        if spec.fields is None:
            return self._plain(name, spec, at, query, inner)
        return self._group(name, spec, at, query, inner, depth)

    def _plain(
        self,
        name: str,
        spec: FieldSpec,
        at: str,
        query: SelectorQuery,
        inner: tuple[Step, ...] | None,
    ) -> FieldPlan:
        if spec.regex is not None:
            self._check_pattern(spec.regex, at)
        from_json = query.language is Language.JSON or inner is not None
        usual = ValueType.JSON if from_json and spec.regex is None else ValueType.TEXT
        kind = spec.type or (ValueType.DATE if spec.format else usual)
        if spec.format is not None and (
            kind is not ValueType.DATE or not strptime_works(spec.format)
        ):
            self._wrong(f"{at}.format", "is no date format", 'write it like "%d.%m.%Y"')
        return FieldPlan(
            name=name,
            query=query,
            inner=inner,
            pattern=spec.regex,
            type=kind,
            format=spec.format,
            many=bool(spec.many),
            default=spec.default,
            path=_path_of(at),
        )

    def _group(
        self,
        name: str,
        spec: FieldSpec,
        at: str,
        query: SelectorQuery,
        inner: tuple[Step, ...] | None,
        depth: int,
    ) -> FieldPlan:
        for key in ("regex", "type", "format", "attr"):
            if getattr(spec, key) is not None:
                self._wrong(f"{at}.{key}", "has no meaning for a group", "move it to a field")
        if _takes_text(query):
            self._wrong(
                at, "takes a text where a group needs elements", "leave `@…` or `::…` to its fields"
            )
        if not spec.fields:
            self._wrong(f"{at}.fields", "is empty", "name at least one field")
        inside = Language.JSON if inner is not None else query.language
        fields = self.fields(spec.fields or {}, f"{at}.fields", inside, depth + 1)
        self._check_languages(fields, f"{at}.fields", inside, "select")
        return FieldPlan(
            name=name,
            query=query,
            inner=inner,
            many=spec.many if spec.many is not None else depth == 1,
            default=spec.default,
            fields=fields,
            path=_path_of(at),
        )

    def _check_languages(
        self, fields: tuple[FieldPlan, ...], at: str, inside: Language, outer: str
    ) -> None:
        """Report the fields of a group that are not in the language of its matches, which `outer`
        names."""
        for field in fields:
            if field.query.language is not inside:
                self._wrong(
                    f"{at}.{field.name}",
                    f"is {field.query.language} within matches of {inside}",
                    f"write the fields of this group in {inside}, or its `{outer}` in "
                    f"{field.query.language}",
                )

    def _query(self, spec: FieldSpec, at: str, language: Language) -> SelectorQuery | None:
        written = [
            (key, text)
            for key in ("select", "css", "xpath")
            if (text := getattr(spec, key)) is not None
        ]
        if not written and spec.json is not None:
            written = [("json", spec.json)]
        if len(written) != 1:
            names = " and ".join(f"`{key}`" for key, _ in written)
            self._wrong(
                at,
                f"has {names}" if written else "does not say where to look",
                "give one of `select`, `css`, `xpath`; or `json` alone",
            )
            return None
        key, text = written[0]
        place = at if key == "select" and spec == FieldSpec(select=text) else f"{at}.{key}"
        if key == "select":
            language, text = _told_by_its_beginning(text, language)
        else:
            language = Language(key)
        if language is Language.CSS:
            return self._css(text, spec, place)
        if spec.attr is not None:
            self._wrong(f"{at}.attr", f"has no meaning in {language}", "put it into the expression")
        return self._xpath(text, place) if language is Language.XPATH else self._json(text, place)

    def _css(self, text: str, spec: FieldSpec, at: str) -> SelectorQuery | None:
        taken = css.split(text)
        if spec.attr is not None and (taken.attribute or taken.html or taken.own):
            self._wrong(at, "says twice what is taken", "leave `attr` out")
        if taken.selector:
            try:
                self._nothing.css(taken.selector)
            except (SelectolaxError, UnicodeEncodeError):
                hint = next((hint for part, hint in _HINTS if part in taken.selector), None)
                self._wrong(
                    at,
                    "is no CSS selector",
                    hint or "correct it; `crawlfleet extract` tries it on a page",
                    value=text,
                )
                return None
        return SelectorQuery(
            language=Language.CSS,
            expression=taken.selector,
            attribute=taken.attribute or spec.attr,
            html=taken.html,
            own=taken.own,
        )

    def _check_pattern(self, pattern: str, at: str) -> None:
        if problem := pattern_problem(pattern):
            self._wrong(f"{at}.regex", problem, REMEDY)

    def _xpath(self, text: str, at: str) -> SelectorQuery | None:
        from lxml import etree

        try:
            etree.XPath(text)
        except (etree.XPathSyntaxError, ValueError) as error:
            self._wrong(at, f"is no XPath: {error}", "correct it", value=text)
            return None
        return SelectorQuery(language=Language.XPATH, expression=text)

    def _json(self, text: str, at: str) -> SelectorQuery | None:
        path = self._path(text, at)
        return (
            None
            if path is None
            else SelectorQuery(language=Language.JSON, expression=text, path=path)
        )

    def _inner(self, spec: FieldSpec, at: str) -> tuple[Step, ...] | None:
        """Return the path into the JSON of a text, where a path stands beside another query."""
        if spec.json is None or (spec.select, spec.css, spec.xpath) == (None, None, None):
            return None
        return self._path(spec.json, f"{at}.json")

    def _path(self, text: str, at: str) -> tuple[Step, ...] | None:
        path = json_path.parse(text)
        if isinstance(path, str):
            self._wrong(at, path, 'write it like "$.products[*].title"', value=text)
            return None
        return path

    def _wrong(self, field: str, message: str, remedy: str, value: Any = None) -> None:
        self.problems.append(FieldProblem(field=field, message=message, remedy=remedy, value=value))


def _path_of(at: str) -> str:
    """Return `selectors.products.fields.title` as people write it: `products.title`."""
    return at.removeprefix(f"{SELECTORS}.").replace(".fields.", ".")


def _takes_text(query: SelectorQuery) -> bool:
    return bool(query.attribute or query.html or query.own)


def _may_contain(field: FieldPlan) -> bool:
    return field.query.language is Language.CSS and bool(field.query.expression)


def _told_by_its_beginning(text: str, usual: Language) -> tuple[Language, str]:
    text = text.strip()
    for prefix, language in _PREFIXES:
        if text.startswith(prefix):
            return language, text.removeprefix(prefix).strip()
    if text.startswith("$"):
        return Language.JSON, text
    return (Language.XPATH if text.startswith(_XPATH_BEGINS) else usual), text


def _text(reason: object) -> str:
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)


_ODD: Final = {
    "person": "people",
    "child": "children",
    "man": "men",
    "woman": "women",
    "series": "series",
    "news": "news",
    "data": "data",
    "media": "media",
    "people": "people",
    "children": "children",
}


def plural(name: str) -> str:
    """Return the name in the plural; a plural, or a word that is not English, stays as it is."""
    head, _, last = name.rpartition("_")
    word = last.lower()
    if not word.isascii() or not word[-1:].isalpha():
        return name
    if word in _ODD:
        made = _ODD[word]
    elif word.endswith(("ss", "sh", "ch", "x", "z")):
        made = f"{last}es"
    elif word.endswith("s"):
        made = last
    elif word.endswith("y") and word[-2:-1] not in {"a", "e", "i", "o", "u"}:
        made = f"{last[:-1]}ies"
    else:
        made = f"{last}s"
    return f"{head}_{made}" if head else made
